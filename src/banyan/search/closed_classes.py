"""Words of closed classes: pronouns, prepositions, conjunctions, particles, auxiliaries.

For languages in which some of their forms are too rare for `grammar` to tell them from nouns. The lists of
stopwords-iso are too short: they have 49 words of Latin and 39 of Hausa.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

SHARE, DIFFERENT = 0.25, 50  # of all words, and forms that occur: then the texts are in the language

_LATIN = """
ego mei mihi me mecum nos nostri nostrum nobis nobiscum tu tui tibi te tecum vos vestri vestrum vobis vobiscum sui
sibi se sese secum meus mea meum meae meo meam meorum mearum meis meos meas tuus tua tuum tuae tuo tuam tuorum tuarum
tuis tuos tuas suus sua suum suae suo suam suorum suarum suis suos suas noster nostra nostrae nostro nostram nostrorum
nostrarum nostris nostros nostras vester vestra vestrae vestro vestram vestrorum vestrarum vestris vestros vestras is
ea id eius ei eum eam eo ii eae eorum earum eis iis eos eas hic haec hoc huius huic hunc hanc hac hi hae horum harum
his hos has ille illa illud illius illi illum illam illo illae illorum illarum illis illos illas iste ista istud
istius isti istum istam isto istae istorum istarum istis istos istas istuc istic istaec ipse ipsa ipsum ipsius ipsi
ipsam ipso ipsae ipsorum ipsarum ipsis ipsos ipsas idem eadem eiusdem eidem eundem eandem eodem iidem eaedem eorundem
earundem eisdem iisdem eosdem easdem qui quae quod cuius cui quem quam quo qua quorum quarum quibus quos quas quis
quid quocum quacum quibuscum quidam quaedam quoddam quiddam cuiusdam cuidam quendam quandam quodam quadam quorundam
quarundam quibusdam quosdam quasdam quisque quaeque quidque quodque cuiusque cuique quemque quamque quoque quaque
quisquam quicquam quidquam cuiusquam cuiquam quemquam quisquis quidquid quicquid quicumque quaecumque quodcumque
cuiuscumque quemcumque quocumque quibuscumque quoscumque aliquis aliqua aliquid aliquod alicuius alicui aliquem
aliquam aliquo aliquos aliquas aliqui aliquibus uter utra utrum utrius utri uterque utraque utrumque utriusque utrique
utroque utramque utrosque utrasque alius alia aliud alium aliam alio alii aliae aliorum aliarum aliis alios alias
alter altera alterum alterius alteri alteram altero ullus ulla ullum ullius ulli ullam ullo nullus nulla nullum
nullius nulli nullam nullo nullis nullos nullas nemo neminem nemini nihil nil unus una unum unius uni unam uno omnis
omne omnes omnia omnium omnibus omnem omni tantum tanto quantum quanto tot quot talis tale tales talia qualis quale
nonnullus nonnulla nonnullum nonnulli nonnullae nonnullis nonnullos nonnullas plures plura plurium pluribus plurimum
multi multae multa multum multo multis multos multas multorum multarum a ab abs ad adversus ante apud circa circum
citra contra coram cum de e ex erga extra in infra inter intra iuxta ob penes per post prae praeter pro prope propter
sine sub super supra trans ultra usque et ac atque aut vel sive seu an ne nec neque sed at autem vero enim etenim nam
namque igitur itaque ergo ideo idcirco quare quapropter quia quoniam quando dum donec quoad ut uti utinam sicut sicuti
velut veluti tamquam tanquam quasi ceu si nisi ni sin etsi etiamsi tametsi quamquam quanquam quamvis licet tamen
attamen etiam item necnon non haud minime nonne num nunc tunc tum iam nondum adhuc semper numquam nunquam umquam
unquam saepe interdum aliquando olim mox statim deinde dein deinceps postea antea prius denique tandem interea interim
simul huc hinc illic illuc illinc inde unde ubi ibi ibidem undique ubique usquam nusquam alibi sic ita adeo tam magis
plus minus maxime satis nimis valde fere paene modo tantummodo quidem equidem scilicet videlicet certe profecto sane
forte fortasse forsitan quippe nempe praeterea insuper imo immo ecce quomodo quemadmodum quotiens quoties ceterum
rursus rursum iterum aliter potius sum es est sumus estis sunt eram eras erat eramus erant ero eris erit erimus erunt
fui fuisti fuit fuimus fuerunt fuere fueram fuerat fuerant fuerit fuerint sim sis sit simus sint essem esses esset
essemus essent esse fuisse fuisset fuissent fore foret forent possum potes potest possumus possunt potuit posse possim
possis possit possimus possint posset possent poterat poterant praesertim utique secundum inquit ait
"""
_HAUSA = """
ni kai ke shi ita mu ku su na ka ki ya ta an mun kun sun za zan zai zata zaka zaku zamu zasu nan can wannan wancan
waɗannan wadannan waɗancan wadancan waɗansu wadansu wasu wani wata wanda wadda waɗanda wadanda duk duka dukan dukkan
dukkanin dukkansu dukansu dukanku dukanmu kowa kowace kowane kowanne kome komai da ga a cikin kan akan daga zuwa har
sai don domin saboda kuma amma ko idan in inda yadda yaya me mene menene wane wace wa ina yaushe ne ce ba babu bai ban
bata basu akwai kamar game tare tun sosai kawai kadai mai masu nasa nata nasu nawa naka naki namu naku gare gareshi
gareta garesu wajen bisa cikinsu tsakanin yana tana suna muna kuna kana kina ana yake take suke muke kuke nake kake
ake kanku kansu kansa kanta kaina kanmu kanka miki maka mini masa musu mana muku min fa dai ma kam to shine itace sune
haka hakan alhali haƙiƙa hakika face cewa cewar wanne wacce lalle lallai wai nawane
"""
_ENGLISH = """
i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
it its itself they them their theirs themselves one oneself this that these those who whom whose which what whatever
whoever whichever someone somebody something anyone anybody anything everyone everybody everything nobody nothing none
each every either neither both all any some no not nor such same other others another own several many much more most
few fewer little less least enough a an the and or but if then else than as because since so while whereas although
though unless until till whether for of in on at by to from with without within into onto out over under up down off
about above across after against along among amongst around before behind below beneath beside besides between beyond
during despite except inside outside near per through throughout toward towards upon via am is are was were be been
being do does did doing done have has had having will would shall should can could may might must ought cannot don
doesn didn isn aren wasn weren won wouldn shouldn couldn hasn haven hadn ve ll re there here where when why how
wherever whenever however therefore thus hence moreover furthermore otherwise instead meanwhile nevertheless also too
very quite rather just only even still yet already again always never ever often sometimes usually perhaps maybe almost
"""


def _spelled(word: str) -> set[str]:
    """A Latin word as editions spell it: with v or u, also at its beginning ("vnde"), with i or j."""
    return {word, word.replace("v", "u"), re.sub("^u", "v", word), re.sub("(^|(?<=[aeou]))i(?=[aeou])", "j", word)}


CLASSES = frozenset().union(*map(_spelled, _LATIN.split())), frozenset(_HAUSA.split()), frozenset(_ENGLISH.split())


def closed(texts: Sequence[Sequence[str]]) -> set[str]:
    """Return the words of closed classes, if the texts are in a language that is known. texts: their words."""
    counts = Counter(word for text in texts for word in text)
    plain = {word: _without_marks(word) for word in counts}
    words: set[str] = set()
    for some in CLASSES:
        found = {word for word, letters in plain.items() if letters in some}
        if len(found) >= DIFFERENT and sum(counts[word] for word in found) >= SHARE * counts.total():
            words |= found
    return words


def _without_marks(word: str) -> str:
    """A word without the marks of long vowels and tones, which few texts write."""
    return "".join(letter for letter in unicodedata.normalize("NFD", word) if not unicodedata.combining(letter))

// A browser starts no worker for a page that was opened from a file. There, the search of the site runs in a frame.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe"), script = document.createElement("script")
      frame.hidden = true
      document.body.append(frame)
      const inside = this.inside = frame.contentWindow
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      script.src = url
      this.ready = new Promise(done => { script.onload = done })
      inside.document.body.append(script)
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })))
    }
  }
}

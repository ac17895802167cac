"""Small tools that every other room uses and that know nothing of Banyan's models."""

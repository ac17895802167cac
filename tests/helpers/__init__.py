"""What several test files share: small corpora and models, random batches, servers, and programs that tests start."""

"""One contract with whatever runs a model: a file of requests out, files of answers in. docs/answers.md says it."""

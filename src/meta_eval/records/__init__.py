"""A recorded run of lm-eval as an evals dataset: found (`runs`), read and checked (`rows`), given the code of its tasks
(`code`), made into tasks of a pack (`task`), of which lm-eval is asked once more what they ask (`asked`), and written
(`prepare`)."""

"""Makes packs of recorded runs. In order: a format finds and opens the run (`format_registry`), tasks and run are
selected (`run_selection`), samples are read and checked (`recorded_docs`), the task's code is copied (`task_code`), the
pack's tasks are made (`pack_task`), and lm-eval's requests are compared with the recorded ones (`preparation`, the
entry point)."""

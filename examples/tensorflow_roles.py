"""Prints what TensorFlow would read from TF_CONFIG; works without TensorFlow.

With it, tf.distribute.cluster_resolver.TFConfigClusterResolver() finds the same.
"""
import json
import os
import time

config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
print(f"{task['type']} {task['index']} in a cluster of",
      ", ".join(f"{len(hosts)} {role}" for role, hosts in config["cluster"].items()))
# A parameter server and the evaluator go on until the chief and the workers have done.
while task["type"] in ("ps", "evaluator"):
    time.sleep(0.1)
time.sleep(0.5)

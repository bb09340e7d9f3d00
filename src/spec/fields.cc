#include "spec/fields.h"

#include <arpa/inet.h>

#include <limits>

namespace dure::spec {
namespace {

bool isAbsolutePath(std::string_view text) { return text.starts_with('/'); }

bool isAddress(std::string_view text) {
  const std::string address(text);
  in6_addr parsed{};
  return inet_pton(AF_INET, address.c_str(), &parsed) == 1 ||
         inet_pton(AF_INET6, address.c_str(), &parsed) == 1;
}

bool isSubPath(std::string_view text) {
  return text.empty() || (isVolumePath(text) && !isAbsolutePath(text));
}

bool isObjectNameOrEmpty(std::string_view text) { return text.empty() || isObjectName(text); }

}  // namespace

TextRule objectNameRule() {
  return {.valid = isObjectNameOrEmpty,
          .must = "be a name in Kubernetes: lower-case letters, digits, '-' and '.'",
          .pattern = "^(?!.*\\.\\.)([a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?)?$"};
}

namespace {

TextRule absolutePathRule() {
  return {.valid = isAbsolutePath, .must = "be an absolute path", .pattern = "^/"};
}

void visitWorkers(FieldVisitor& v, WorkerCount& workers) {
  v.whole({"min", "The job goes on as long as this many are left."}, workers.min, {1, 10'000});
  v.whole({"max", "The job starts with this many."}, workers.max, {1, 10'000});
}

void visitRoles(FieldVisitor& v, Roles& roles) {
  v.whole({"chief", "One task apart from the workers that is the first among them."}, roles.chief,
          {0, 1});
  v.alias({"worker", "Another way to write `workers`."}, "workers");
  v.whole({"ps", "Parameter servers."}, roles.ps, {0, 1000});
  v.whole({"evaluator", "One task that evaluates beside the training; it needs a chief."},
          roles.evaluator, {0, 1});
}

void visitLimits(FieldVisitor& v, ResourceLimits& limits) {
  v.number({"cpus", "Processors; 0 sets no limit.", "2"}, limits.cpus, {});
  v.bytes({"memory", "Memory; 0 is as much as was asked for, or no limit if nothing was.", "4Gi"},
          limits.memory);
}

void visitAmounts(FieldVisitor& v, Resources& resources) {
  v.number({"cpus", "Processors; 0 asks for none in particular.", "0.5"}, resources.cpus, {});
  v.bytes({"memory", "Memory; 0 asks for none in particular.", "2Gi"}, resources.memory);
}

void visitStorage(FieldVisitor& v, Storage& storage) {
  v.text({"class", "Its storage class; empty is the cluster's default.", "ssd"},
         storage.storage_class, objectNameRule());
  v.bytes({"size", "How much the run may keep there."}, storage.size);
  v.text({"access",
          "`ReadWriteOnce` or `ReadWriteMany`. Empty is what the job needs: the second if tasks on "
          "several nodes write checkpoints, or read data that was sent along.",
          "ReadWriteMany"},
         storage.access, {.words = {"", "ReadWriteOnce", "ReadWriteMany"}});
  v.flag({"keep", "Whether it stays when the run is removed."}, storage.keep);
  v.bytes(
      {"data_limit", "The most data of this machine that is sent along. More belongs on a volume."},
      storage.data_limit);
}

void visitProgram(FieldVisitor& v, Program& program) {
  v.command({"command",
             "The program and its arguments. One text instead of a list is a line for `sh -c`.",
             "[python3, train.py, --epochs, 3]"},
            program.command);
  v.text({"image", "The container image to run in, where tasks are containers.", "my/image:1"},
         program.image, {});
  v.text({"pull", "When a node fetches the image; empty leaves it to the cluster.", "IfNotPresent"},
         program.pull, {.words = {"", "Always", "IfNotPresent", "Never"}});
  v.text(
      {"workdir",
       "The directory to run in. A relative one begins at the job file's directory, or without a "
       "file at the current one."},
      program.workdir, {});
  v.flag({"ship", "Whether that directory is sent along to a cluster."}, program.ship);
  v.bytes({"ship_limit", "How large its files may be, all together, to be sent."},
          program.ship_limit);
  v.texts({"data",
           "Files and directories that it reads. A cluster gets a copy, sent once and by content, "
           "at the same paths.",
           "[data, /srv/reviews]"},
          program.data);
  v.whole({"user", "The number of the user that the program has in a pod; 0 is root."},
          program.user, {});
  v.alias({"env", "Another way to write `env`; both are put together."}, "env");
}

void visitHorovod(FieldVisitor& v, Horovod& horovod) {
  v.choiceOf({"controller", "How the processes agree on what to reduce next."}, horovod.controller,
             {"gloo", "mpi"});
}

void visitModel(FieldVisitor& v, Model& model) {
  v.text({"name", "A model that is built in.", "mlp"}, model.name,
         {.words = {"convnet", "mlp", "text", "linear"}});
  v.text(
      {"file", "Instead of a name: a TorchScript module or a Keras model of one's own.", "net.pt"},
      model.file, {});
  v.text({"weights", "A safetensors file with the weights to begin with, by their names.",
          "first.safetensors"},
         model.weights, {});
  v.wholes(
      {"hidden", "The sizes of the hidden layers; empty leaves them to the model.", "[256, 128]"},
      model.hidden, {1, 1'000'000});
  v.wholes({"filters", "Of each convolution of `convnet`; empty is 32 and 64.", "[32, 64]"},
           model.filters, {1, 100'000});
  v.number(
      {"dropout", "The part of the inputs that dropout leaves out; -1 is the model's own.", "0.5"},
      model.dropout, {.min = -1});
  v.whole({"embedding", "The length of the vector of a word of `text`; 0 is 32.", "64"},
          model.embedding, {0, 100'000});
  v.whole({"lstm", "The size of an LSTM in `text`; 0 takes the mean of the words instead.", "64"},
          model.lstm, {0, 100'000});
  v.whole({"vocabulary",
           "How many words `text` knows; 0 is as many as the data has. With a file: that its "
           "samples are words, and how many of them count; a Keras model says so itself.",
           "10000"},
          model.vocabulary, {});
  v.seed({"seed",
          "Of the first weights: models that begin alike can be averaged, whatever `seed` orders "
          "their samples. 0 is that `seed`.",
          "1"},
         model.seed);
}

void visitData(FieldVisitor& v, Data& data) {
  v.text({"path", "The file or directory to learn from.", "/data/fashion-mnist"}, data.path, {});
  v.text({"format", "What it is; empty finds out.", "npz"}, data.format,
         {.words = {"", "idx", "npz", "npy", "arrow", "csv"}});
  v.text({"train", "The split to learn from; empty takes the usual names.", "train"}, data.train,
         {});
  v.text({"test", "The split to evaluate on; empty takes the usual names.", "validation"},
         data.test, {});
  v.text({"samples", "The column or array with the samples; empty takes the usual names.",
          "pixel_values"},
         data.samples, {});
  v.text({"labels", "The column or array with the labels; empty takes the usual names.", "digit"},
         data.labels, {});
  v.wholes({"shape", "Of one sample, channels last; empty is as in the file.", "[28, 28, 1]"},
           data.shape, {1, 1'000'000'000});
  v.number({"scale",
            "What samples are multiplied by first; 0 is 1/255 for bytes and 1 for other numbers.",
            "0.00390625"},
           data.scale, {});
  v.number({"mean", "What is then subtracted.", "0.286"}, data.mean, {.min = kAnyNumber});
  v.number({"std", "What it is then divided by.", "0.353"}, data.std, {.min = 0, .above = true});
  v.whole({"classes",
           "How many classes the labels have; 0 makes them numbers to predict, whole or not; -1 "
           "finds out.",
           "10"},
          data.classes, {-1, 1 << 24});
}

void visitOptimizer(FieldVisitor& v, Optimizer& optimizer) {
  v.text({"name", "How the weights follow the gradient."}, optimizer.name,
         {.words = {"sgd", "adam", "adamw"}});
  v.number({"lr", "The learning rate."}, optimizer.lr, {.min = 0, .above = true});
  v.number({"momentum", "Of `sgd`.", "0.9"}, optimizer.momentum, {});
  v.flag({"nesterov", "Whether the momentum of `sgd` looks ahead."}, optimizer.nesterov);
  v.number({"weight_decay", "Weight decay, as the optimizer defines it.", "0.01"},
           optimizer.weight_decay, {});
  v.number({"beta1", "Of `adam` and `adamw`."}, optimizer.beta1, {});
  v.number({"beta2", "Of `adam` and `adamw`."}, optimizer.beta2, {});
  v.number({"epsilon", "Of `adam` and `adamw`."}, optimizer.epsilon, {.min = 0, .above = true});
}

void visitSchedule(FieldVisitor& v, Schedule& schedule) {
  v.choiceOf({"shape", "How the learning rate falls over the training."}, schedule.shape,
             {"constant", "linear", "cosine", "step"});
  v.whole({"warmup", "Steps over which the rate first rises from 0.", "500"}, schedule.warmup, {});
  v.number({"floor", "The part of the rate that `linear` and `cosine` end at."}, schedule.floor,
           {});
  v.number({"gamma", "What `step` multiplies the rate by."}, schedule.gamma, {});
  v.whole({"every", "Epochs between two such multiplications."}, schedule.every, {.min = 1});
  v.flag({"scale_with_workers", "Whether the rate is multiplied by the number of workers."},
         schedule.scale_with_workers);
}

void visitEarlyStopping(FieldVisitor& v, EarlyStopping& stopping) {
  v.whole({"patience", "Epochs without a better test loss after which training ends.", "3"},
          stopping.patience, {1, std::numeric_limits<int>::max(), "never"});
  v.number({"min_delta", "How much better it must be to count."}, stopping.min_delta, {});
}

void visitTrain(FieldVisitor& v, Train& train) {
  v.object({"model", "What to train.", "mlp"}, {.shorthand = {"name"}},
           [&](FieldVisitor& inner) { visitModel(inner, train.model); });
  v.object({"data", "What to learn from.", "/data/fashion-mnist"}, {.shorthand = {"path"}},
           [&](FieldVisitor& inner) { visitData(inner, train.data); });
  v.whole({"epochs", "How many passes over the data."}, train.epochs, {.min = 1});
  v.whole({"steps", "Ends the training after so many steps, if the epochs have more.", "50"},
          train.steps, {1, std::numeric_limits<int>::max(), "all"});
  v.whole({"batch", "Samples of one worker in one step."}, train.batch, {.min = 1});
  v.whole({"accumulate", "Batches of one worker that make one step together."}, train.accumulate,
          {1, 100'000});
  v.seed({"seed", "The same seed gives the same order of samples and the same first weights."},
         train.seed);
  v.object({"optimizer", "How the weights are changed.", "{name: adam, lr: 0.001}"},
           {.shorthand = {"name"}},
           [&](FieldVisitor& inner) { visitOptimizer(inner, train.optimizer); });
  v.object({"schedule", "How the learning rate changes.", "{shape: cosine, warmup: 500}"},
           {.shorthand = {"shape"}},
           [&](FieldVisitor& inner) { visitSchedule(inner, train.schedule); });
  v.number({"clip", "The longest that a gradient may be (its 2-norm); 0 lets it be.", "1.0"},
           train.clip, {});
  v.number({"label_smoothing", "The part of the target that is spread over all classes.", "0.1"},
           train.label_smoothing, {});
  v.object({"early_stopping", "Ends the training when it gets no better.", "3"},
           {.shorthand = {"patience"}},
           [&](FieldVisitor& inner) { visitEarlyStopping(inner, train.early_stopping); });
  v.sync(
      {"sync",
       "When the workers share what they learned: after every step, after some steps, or once at "
       "the end.",
       "{every: 50}"},
      train.sync, [&](FieldVisitor& inner) {
        inner.whole({kSyncObject.field, "Steps between two averages."}, train.sync.every,
                    {.min = 1});
        inner.number({"momentum", "Nesterov momentum from one average to the next.", "0.9"},
                     train.sync.momentum, {});
        inner.number({"lr", "How far to go towards the average.", "0.7"}, train.sync.lr,
                     {.min = 0, .above = true});
      });
  v.choiceOf({"wire",
              "How numbers travel between hosts. With 16 bits (gradient compression), error "
              "feedback adds the rounding error to the next step."},
             train.wire, {"float32", "bf16", "fp16"});
}

void visitCheckpoint(FieldVisitor& v, Checkpoint& checkpoint) {
  v.text({"path", "The directory for checkpoints.", "out/checkpoints"}, checkpoint.path, {});
  v.text({"claim",
          "In a cluster: a PersistentVolumeClaim that is mounted there, in the chief or else the "
          "first worker only.",
          "models"},
         checkpoint.claim, objectNameRule());
  v.whole(
      {"every",
       "Steps between two checkpoints; 0 leaves it to the program (native training: each epoch)."},
      checkpoint.every, {});
  v.duration({"interval", "Or the time between two checkpoints, with native training.", "5m"},
             checkpoint.interval, {"never"});
  v.whole({"keep", "How many of the latest to keep."}, checkpoint.keep, {.min = 1});
}

void visitVolume(FieldVisitor& v, Volume& volume) {
  v.text({"path", "Where the program sees it. A relative one begins at the workdir.", "/data"},
         volume.path,
         {.valid = isVolumePath,
          .must = "be a path without '..' and ':'",
          .pattern = "^(?!(.*/)?\\.\\.(/|$))[^:]+$"});
  v.text({"claim", "A PersistentVolumeClaim.", "datasets"}, volume.claim, objectNameRule());
  v.text({"host", "Or a directory of the machine.", "/srv/data"}, volume.host, absolutePathRule());
  v.text({"sub_path", "The directory of the claim that is mounted; empty is all of it.", "runs/7"},
         volume.sub_path,
         {.valid = isSubPath,
          .must = "be a relative path without '..' and ':'",
          .pattern = "^((?!/)(?!(.*/)?\\.\\.(/|$))[^:]+)?$"});
  v.flag({"read_only", "Whether the program may only read it."}, volume.read_only);
  v.choiceOf({"tasks",
              "In a cluster: which tasks have it. `chief` is the chief, or else the first worker."},
             volume.tasks, {"all", "chief"});
}

void visitRestarts(FieldVisitor& v, Restarts& restarts) {
  v.whole({"limit", "How many failures of the program are answered by a restart."}, restarts.limit,
          {0, 1'000'000});
  v.duration({"backoff", "The pause before the first restart; it doubles with each one."},
             restarts.backoff, {});
  v.duration({"max_backoff", "The longest pause."}, restarts.max_backoff, {});
}

void visitTimeouts(FieldVisitor& v, Timeouts& timeouts) {
  v.duration({"start", "From asking for the tasks until the last of them has joined."},
             timeouts.start, {"never"});
  v.duration({"stop", "From the request to stop (SIGTERM) until the program is killed."},
             timeouts.stop, {});
  v.duration({"heartbeat", "The silence after which a task's agent is taken for lost."},
             timeouts.heartbeat, {"never"});
  v.duration({"progress", "The silence after which a program is taken for hung.", "10m"},
             timeouts.progress, {"never"});
  v.duration({"autoscale",
              "With `autoscale`: how long pods ask for nodes until they are withdrawn. They are "
              "back after the same time again, while there is no place."},
             timeouts.autoscale, {});
}

void visitLocal(FieldVisitor& v, Local& local) {
  v.texts({"networks", "Network namespaces; tasks are assigned to them round-robin.", "[a, b]"},
          local.networks);
  v.text({"address", "Where programs in those namespaces reach this machine.", "10.0.0.1"},
         local.address, {.valid = isAddress, .must = "be an IPv4 or IPv6 address"});
}

void visitRender(FieldVisitor& v, Render& render) {
  v.flag({"deploy", "The tasks and their services. With an `inspector`, the default is `false`."},
         render.deploy);
  v.flag({"claim", "The ReadWriteOnce claim of `checkpoint.claim`."}, render.claim);
  v.flag({"inspector",
          "A pod that has `checkpoint.claim` mounted and waits, to look at what was trained. Not "
          "together with `deploy`: the claim is mounted on one node only."},
         render.inspector);
  v.bytes({"size", "Of the claim."}, render.size);
  v.text({"storage_class", "Of the claim; empty is the cluster's default.", "ssd"},
         render.storage_class, objectNameRule());
}

// The parameters of the TensorFlow template that people come from, under the names they have there;
// `name` and `port` are the job's own.
void visitTemplateParameters(FieldVisitor& v) {
  v.alias({"script",
           "Another way to write `program.command`, with `python3` before it. The default of "
           "`strategy` is then `tensorflow`.",
           "train.py"},
          "program.command", {"python3"});
  v.alias({"worker_replicas", "Another way to write `workers`."}, "workers");
  v.alias({"image", "Another way to write `program.image`."}, "program.image");
  v.alias({"model_checkpoint_dir", "Another way to write `checkpoint.path`."}, "checkpoint.path");
  v.alias({"checkpoint_pvc_name", "Another way to write `checkpoint.claim`."}, "checkpoint.claim");
  v.alias({"deploy", "Another way to write `render.deploy`."}, "render.deploy");
  v.alias({"create_pvc_checkpoint", "Another way to write `render.claim`."}, "render.claim");
  v.alias({"create_volume_inspector", "Another way to write `render.inspector`."},
          "render.inspector");
}

bool isLabelKey(std::string_view text) { return labelKeyProblem(text).empty(); }

TextRule labelKeyRule() {
  return {.valid = isLabelKey,
          .must = "be the key of a label, such as disk or example.com/disk",
          .pattern = kLabelKeyPattern};
}

template <typename Element>
ObjectList listOf(std::vector<Element>& list, void (*visit)(FieldVisitor&, Element&)) {
  return {.size = [&list] { return list.size(); },
          .append = [&list] { list.emplace_back(); },
          .visit = [&list, visit](FieldVisitor& v, std::size_t i) { visit(v, list.at(i)); },
          .visit_default =
              [visit](FieldVisitor& v) {
                Element element;
                visit(v, element);
              }};
}

void visitNodeRule(FieldVisitor& v, NodeRule& rule) {
  v.text({"key", "The key of the label.", "accelerator"}, rule.key, labelKeyRule());
  v.choiceOf(
      {"operator",
       "What must be true of the label, `In` if not said; `Gt` and `Lt` compare whole numbers."},
      rule.op, {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"});
  v.texts({"values", "What it is compared with.", "[a100, h100]"}, rule.values);
}

void visitToleration(FieldVisitor& v, Toleration& toleration) {
  v.text({"key", "The key of the taint; empty with `Exists` is every taint.", "dedicated"},
         toleration.key, {});
  v.choiceOf({"operator",
              "Whether the taint must have the value, which is the default, or only be there."},
             toleration.op, {"Equal", "Exists"});
  v.text({"value", "The value of the taint, with `Equal`.", "training"}, toleration.value, {});
  v.text({"effect", "The effect of the taint; empty is every effect.", "NoSchedule"},
         toleration.effect, {.words = {"", "NoSchedule", "PreferNoSchedule", "NoExecute"}});
}

void visitNodes(FieldVisitor& v, NodeChoice& nodes) {
  v.namedTexts({"selector", "Labels that a node must have, with these values.", "{disk: ssd}"},
               nodes.selector, {.problem = labelKeyProblem, .pattern = kLabelKeyPattern});
  v.objects({"affinity", "What else must be true of the labels of a node, all of it."},
            {.required = {"key"}}, listOf(nodes.affinity, visitNodeRule));
  v.objects({"tolerations", "The taints that do not keep the job from a node."}, {},
            listOf(nodes.tolerations, visitToleration));
  v.text({"gpu", "The name under which nodes offer their GPUs.", "amd.com/gpu"}, nodes.gpu,
         labelKeyRule());
  v.text({"zone", "The label that says which zone a node is in."}, nodes.zone, labelKeyRule());
  v.text({"rack", "The label that says which rack of the zone it is in."}, nodes.rack,
         labelKeyRule());
}

}  // namespace

void visitResources(FieldVisitor& v, Resources& resources) {
  visitAmounts(v, resources);
  v.whole({"gpus", "GPUs."}, resources.gpus, {0, 1024});
  v.object({"limits", "In a cluster: the most it may use.", "{cpus: 2, memory: 4Gi}"}, {},
           [&](FieldVisitor& inner) { visitLimits(inner, resources.limits); });
}

void visitCluster(FieldVisitor& v, Cluster& cluster) {
  v.text({"account",
          "A ServiceAccount that the run's manager has, made by an administrator. Without one an "
          "account with a Role of its own is made for each run.",
          "dure-manager"},
         cluster.account, objectNameRule());
  v.texts(
      {"pull_secrets", "Secrets with which nodes fetch the images of the run, its manager's too.",
       "[registry]"},
      cluster.pull_secrets);
  v.object({"manager", "What the run's manager needs.", "{memory: 128Mi}"}, {},
           [&](FieldVisitor& inner) {
             visitAmounts(inner, cluster.manager);
             inner.object({"limits", "The most it may use."}, {}, [&](FieldVisitor& limits) {
               visitLimits(limits, cluster.manager.limits);
             });
           });
  v.object({"storage",
            "The claims that a run makes for itself: for `output` and `checkpoint.path` where no "
            "volume holds them, and for data of this machine.",
            "{class: ssd, size: 50Gi}"},
           {}, [&](FieldVisitor& inner) { visitStorage(inner, cluster.storage); });
}

void visitJob(FieldVisitor& v, Job& job) {
  v.text(
      {"name",
       "What the job is called: at most 40 lower-case letters, digits and `-`. The default is "
       "made from the name of the job file, or of the program.",
       "fashion-mnist"},
      job.name,
      {.valid = isJobName,
       .must = "be at most 40 lower-case letters, digits and '-', begin with a letter and not end "
               "with '-'",
       .pattern = "^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$"});
  v.choiceOf({"strategy",
              "How the program's processes find each other. The default is `native` if there is a "
              "`train` section, and `plain` if not."},
             job.strategy, strategyWords());
  v.object({"workers", "How many workers there are: a number, or a least and a most, then both.",
            "{min: 2, max: 8}"},
           {.shorthand = {"min", "max"}, .required = {"min", "max"}},
           [&](FieldVisitor& inner) { visitWorkers(inner, job.workers); });
  v.whole({"gpus",
           "Instead of `workers`: the GPUs of the whole job, the split into workers left to "
           "the plan.",
           "6"},
          job.gpus, {0, 100'000});
  v.flag({"even", "With `gpus`: whether every node used must give the same number of them."},
         job.even);
  v.flag(
      {"autoscale",
       "On Kubernetes: whether a gang that has no place asks the cluster's autoscaler for nodes, "
       "by pods that wait for them."},
      job.autoscale);
  v.object({"roles", "Tasks beside the workers. Only `tensorflow` and `plain` jobs have them."}, {},
           [&](FieldVisitor& inner) { visitRoles(inner, job.roles); });
  v.whole({"processes", "Processes of one task; `auto` is one per GPU, or one.", "4"},
          job.processes, {1, 1024, "auto"});
  v.object({"resources", "What one task needs."}, {},
           [&](FieldVisitor& inner) { visitResources(inner, job.resources); });
  v.object({"nodes", "Which nodes of a cluster the tasks may be placed on."}, {},
           [&](FieldVisitor& inner) { visitNodes(inner, job.nodes); });
  v.object({"kubernetes", "What else a run on Kubernetes has."}, {},
           [&](FieldVisitor& inner) { visitCluster(inner, job.kubernetes); });
  v.object({"program", "What to run, with every strategy but `native`."}, {},
           [&](FieldVisitor& inner) { visitProgram(inner, job.program); });
  v.namedTexts({"env", "The program's environment. Names that begin with `DURE_` are reserved.",
                "{OMP_NUM_THREADS: 2}"},
               job.env, {.problem = environmentNameProblem, .pattern = kEnvironmentNamePattern});
  v.whole({"port", "The first of the ports of the rendezvous of the processes.", "29500"}, job.port,
          {1, 65'535, "auto"});
  v.object({"horovod", "With the strategy `horovod`."}, {},
           [&](FieldVisitor& inner) { visitHorovod(inner, job.horovod); });
  v.object({"train", "With the strategy `native`: a training without a program to write."}, {},
           [&](FieldVisitor& inner) { visitTrain(inner, job.train); });
  v.object({"checkpoint", "Where a restart goes on from.", "out/checkpoints"},
           {.shorthand = {"path"}},
           [&](FieldVisitor& inner) { visitCheckpoint(inner, job.checkpoint); });
  v.text({"output", "Where the trained model goes.", "out/model.h5"}, job.output, {});
  v.objects({"volumes", "Storage that the program sees. Each has either a `claim` or a `host`."},
            {.required = {"path"}}, listOf(job.volumes, visitVolume));
  v.object({"restarts", "What happens when the program fails.", "10"}, {.shorthand = {"limit"}},
           [&](FieldVisitor& inner) { visitRestarts(inner, job.restarts); });
  v.object({"timeouts", "How long to wait for what."}, {},
           [&](FieldVisitor& inner) { visitTimeouts(inner, job.timeouts); });
  v.choiceOf(
      {"success",
       "Whose good end is the job's: `all` chiefs and workers, or the `chief` alone (the task "
       "that holds rank 0), after which the others are stopped. `auto` is `chief` for "
       "`tensorflow` with parameter servers, whose workers never end, and `all` otherwise."},
      job.success, {"auto", "all", "chief"});
  v.duration({"deadline", "The longest the whole job may take, restarts included.", "12h"},
             job.deadline, {"never"});
  v.choiceOf({"clean",
              "Which pods are deleted when a run on Kubernetes has ended well. `workers` keeps the "
              "first one, and with it the log of rank 0."},
             job.clean, {"none", "workers", "all"});
  v.duration({"ttl", "The time after a run on Kubernetes until everything of it is deleted.", "1h"},
             job.ttl, {"never"});
  v.object({"render", "What `dure render` prints."}, {},
           [&](FieldVisitor& inner) { visitRender(inner, job.render); });
  v.object({"local", "How one machine plays several hosts."}, {},
           [&](FieldVisitor& inner) { visitLocal(inner, job.local); });
  visitTemplateParameters(v);
}

}  // namespace dure::spec

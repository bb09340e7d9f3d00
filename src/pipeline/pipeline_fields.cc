#include "pipeline/pipeline_fields.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/core.h>

namespace dure::pipeline {
namespace {

using spec::FieldVisitor;

// What a reference can name beside parameters.
constexpr std::array kReserved{"index",  "item",    "count", "out",  "scratch",
                               "volume", "reports", "run",   "steps"};

std::string parameterNameProblem(std::string_view name) {
  if (std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end()) {
    return "is the name of something else; choose another";
  }
  const auto allowed = [](unsigned char c) {
    return (c < 0x80 && std::isalnum(c) != 0) || c == '_' || c == '-';
  };
  const bool valid = !name.empty() && name.size() <= 40 &&
                     std::isalpha(static_cast<unsigned char>(name.front())) != 0 &&
                     std::all_of(name.begin(), name.end(), allowed);
  return valid ? "" : "must be at most 40 letters, digits, '_' and '-', and begin with a letter";
}

std::string stepNameProblem(std::string_view name) {
  if (spec::isJobName(name) && name.size() <= kMaxStepNameLength) return "";
  return fmt::format(
      "must be at most {} lower-case letters, digits and '-', begin with a letter and not end "
      "with '-'",
      kMaxStepNameLength);
}

void visitParameter(FieldVisitor& v, Parameter& parameter) {
  v.tree({"default", "What it is if nobody sets it; without one it must be set.", "3"},
         parameter.value,
         {.kinds = {"a text", "a number", "true", "false", "a list of texts"},
          .scalar = true,
          .list = true,
          .schema = R"({"type": ["string", "number", "boolean", "array"]})"});
  v.choiceOf({"type", "What it may be; `auto` is what the default is, or a text."}, parameter.type,
             {"auto", "whole", "number", "text", "flag", "list"});
  v.text({"doc", "What it is for, in a sentence.", "Passes over the data"}, parameter.doc, {});
}

void visitService(FieldVisitor& v, Service& service) {
  v.command({"command", "The program and its arguments, or a line for `sh -c`.",
             "dure serve model.h5 --port 8080"},
            service.command);
  v.whole({"port", "Where it answers; `none`: it is ready as soon as it runs.", "8080"},
          service.port, {1, 65'535, "none"});
  v.text({"ready", "The path that answers 200 when it is ready; empty: a connection is enough.",
          "/readyz"},
         service.ready, {});
  v.text({"type",
          "In a cluster: the type of its Service, which listens on port 80: `LoadBalancer`, "
          "`NodePort` or `ClusterIP`.",
          "ClusterIP"},
         service.type, {.words = {"LoadBalancer", "NodePort", "ClusterIP"}});
}

void visitStep(FieldVisitor& v, Step& step) {
  v.tree({"needs", "The steps that must have succeeded before.", "[copy]"}, step.needs_as_written,
         {.kinds = {"a text", "a list of texts"},
          .scalar = true,
          .list = true,
          .schema = R"({"oneOf": [{"type": "string"},
                                  {"type": "array", "items": {"type": "string"}}]})"});
  v.command({"command",
             "A program and its arguments, or a line for `sh -c`, in which values are quoted for "
             "the shell where they must be.",
             "dure copy ${{ data }} --to ${{ out }}"},
            step.command);
  v.tree({"job", "Instead of a command: a job file, or the fields of a job.", "train.yaml"},
         step.job_as_written,
         {.kinds = {"a path", "the fields of a job"},
          .scalar = true,
          .map = true,
          .schema = R"({"oneOf": [{"type": "string"}, {"$ref": "#/$defs/job"}]})"});
  v.namedTexts({"set", "Fields of the job file that are set, by their paths.", "{train.epochs: 3}"},
               step.set,
               {.problem = [](std::string_view) { return std::string(); }, .pattern = "."});
  v.object({"service",
            "Instead of a command: a program that stays. The step has succeeded when it is ready; "
            "`dure stop` ends it."},
           {.required = {"command"}},
           [&](FieldVisitor& inner) { visitService(inner, step.service); });
  v.tree({"each",
          "Runs the step so many times, or once for each item of a list, with `index` and `item` "
          "to tell the parts apart.",
          "5"},
         step.each_as_written,
         {.kinds = {"a whole number", "a list of texts"},
          .scalar = true,
          .list = true,
          .schema = R"({"oneOf": [{"type": "integer", "minimum": 1, "maximum": 10000},
                                  {"type": "array", "minItems": 1, "maxItems": 10000}]})"});
  v.texts({"inputs",
           "Files and directories whose content the step depends on; they must be there. A "
           "relative one begins at `workdir`.",
           "[evaluate.py]"},
          step.inputs);
  v.whole({"retries", "How many failures are answered by another attempt."}, step.retries,
          {0, 1'000'000});
  v.duration(
      {"timeout", "The longest that one attempt may take. For a service: until it is ready.", "1h"},
      step.timeout, {"never"});
  v.text({"image", "The container image to run in, where steps are containers.", "my/image:1"},
         step.image, {});
  v.object({"resources", "What the step needs."}, {},
           [&](FieldVisitor& inner) { spec::visitResources(inner, step.resources); });
  v.namedTexts({"env", "The program's environment. Names that begin with `DURE_` are reserved.",
                "{OMP_NUM_THREADS: 1}"},
               step.env,
               {.problem = spec::environmentNameProblem, .pattern = spec::kEnvironmentNamePattern});
  v.namedTexts({"labels", "Words of one's own, carried along.", "{team: vision}"}, step.labels,
               {.problem = spec::labelKeyProblem, .pattern = spec::kLabelKeyPattern});
}

// `Element` has a name of its own.
template <typename Element>
spec::NamedObjects namedListOf(std::vector<Element>& list, void (*visit)(FieldVisitor&, Element&)) {
  return {.size = [&list] { return list.size(); },
          .name = [&list](std::size_t i) { return list.at(i).name; },
          .append =
              [&list](const std::string& name) {
                list.emplace_back();
                list.back().name = name;
              },
          .visit = [&list, visit](FieldVisitor& v, std::size_t i) { visit(v, list.at(i)); },
          .visit_default =
              [visit](FieldVisitor& v) {
                Element element;
                visit(v, element);
              }};
}

}  // namespace

void visitPipeline(FieldVisitor& v, Pipeline& pipeline) {
  v.text({"name",
          "What the pipeline is called: at most 40 lower-case letters, digits and `-`. The default "
          "is made from the name of the file.",
          "imdb"},
         pipeline.name,
         {.valid = spec::isJobName,
          .must = "be at most 40 lower-case letters, digits and '-', begin with a letter and not "
                  "end with '-'",
          .pattern = "^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$"});
  v.text({"workdir",
          "The directory that steps run in. A relative one begins at the file's directory."},
         pipeline.workdir, {});
  v.whole(
      {"parallel",
       "How many parts of steps run at once; `auto` is as many as there are processors for.", "2"},
      pipeline.parallel, {1, 100'000, "auto"});
  v.text({"image",
          "The container image of steps that name none, where steps are containers. Empty is "
          "Dure's own, which has `dure`, `sh` and Python with NumPy.",
          "my/image:1"},
         pipeline.image, {});
  v.text({"claim",
          "In a cluster: the PersistentVolumeClaim that the steps share. Empty: one is made, "
          "`NAME-volume`, and goes when the last run of the pipeline is removed.",
          "shared"},
         pipeline.claim, spec::objectNameRule());
  v.object({"kubernetes",
            "In a cluster: what holds for all steps, as in [job files](job-file.md#kubernetes). "
            "`storage` is that of the claim.",
            "{storage: {size: 50Gi}}"},
           {}, [&](FieldVisitor& inner) { spec::visitCluster(inner, pipeline.kubernetes); });
  v.namedObjects({"parameters",
                  "Values that `--set NAME=VALUE` changes. A value alone is the "
                  "default."},
                 {.shorthand = {"default"}},
                 {.problem = parameterNameProblem, .pattern = "^[A-Za-z][A-Za-z0-9_-]{0,39}$"},
                 namedListOf(pipeline.parameters, visitParameter));
  v.namedObjects({"steps", "What is done, each step under its name."}, {},
                 {.problem = stepNameProblem, .pattern = "^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$"},
                 namedListOf(pipeline.steps, visitStep));
}

const spec::Catalog& pipelineCatalog() {
  static const spec::Catalog catalog([](FieldVisitor& visitor) {
    Pipeline pipeline;
    visitPipeline(visitor, pipeline);
  });
  return catalog;
}

}  // namespace dure::pipeline

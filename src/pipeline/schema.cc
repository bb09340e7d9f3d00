#include "pipeline/schema.h"

#include <string_view>

#include "pipeline/pipeline_fields.h"
#include "spec/document.h"
#include "spec/job_tree.h"
#include "spec/schema.h"

namespace dure::pipeline {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kPageIntroduction = R"(# The pipeline file

A pipeline is steps with dependencies, written as YAML. What it does and how it is run is on the page
[pipelines](pipelines.md); this page lists the fields.

```yaml
name: words
parameters:
  parts: 3                                    # --set parts=5
steps:
  write:
    command: seq 100 > ${{ out }}/numbers
  count:
    each: ${{ parts }}
    command: head -n ${{ index }}0 ${{ steps.write }}/numbers | wc -l > ${{ out }}/lines
    retries: 1
  add:
    command: cat ${{ steps.count }}/*/lines > ${{ out }}/all
```

`dure pipeline check pipeline.yaml` says what is wrong with a file, all of it at once, each with its place:

```
pipeline.yaml:7:12: steps.train.needs: no step 'copie'; did you mean 'copy'?
```

## References

`${{ NAME }}` in any text stands for a value. In a command that is one line for the shell, the value becomes one word of
the shell, quoted where it must be; do not put quotes around it. `$${{` is the text `${{`.

| name | value |
|---|---|
| a parameter | what it was set to. A text that is one reference and nothing else becomes the number or list itself |
| `A * B` | the product of parameters that are whole numbers, or of such numbers |
| `out` | the directory for the output of this step. It is empty when an attempt begins, and becomes visible to others when the step has succeeded |
| `scratch` | a directory that is kept when a job is resumed, and removed when the step has succeeded: for checkpoints |
| `steps.NAME` | the output of another step, which this one then needs. Of a step with `each`: a directory with the outputs `0`, `1`, … in it |
| `index`, `item`, `count` | in a step with `each`: the number of this part from 0, its item, and how many there are |
| `volume` | the directory that holds the outputs of all steps |
| `run` | the name of the run, such as `imdb.3` |

How values are written is as in [job files](job-file.md#how-values-are-written).

## The pipeline
)";

bool takesText(const Json& schema) {
  const auto type = schema.find("type");
  return type == schema.end() || *type == "string" || type->is_array();
}

// A reference may stand where a number, a flag or a word is wanted.
void allowReferences(Json& schema) {
  if (schema.is_array()) {
    for (Json& item : schema) allowReferences(item);
    return;
  }
  if (!schema.is_object()) return;
  const Json reference = {{"type", "string"}, {"pattern", "\\$\\{\\{.*\\}\\}"}};
  const bool limited = schema.contains("enum") || schema.contains("pattern");
  const auto type = schema.find("type");
  const bool scalar = type != schema.end() && (*type == "integer" || *type == "number" ||
                                               *type == "boolean" || *type == "string");
  if (scalar && (limited || !takesText(schema))) {
    Json description = schema.value("description", Json());
    Json value = schema;
    value.erase("description");
    schema = {{"anyOf", {value, reference}}};
    if (!description.is_null()) schema["description"] = description;
    return;
  }
  if (const auto choices = schema.find("oneOf"); choices != schema.end()) {
    bool all_scalar = true;
    for (const Json& choice : *choices) {
      const auto kind = choice.find("type");
      all_scalar = all_scalar && !choice.contains("$ref") &&
                   !(kind != choice.end() && (*kind == "object" || *kind == "array"));
    }
    // Two branches may both take the reference, and then one of them is not the only one.
    if (all_scalar) {
      Json value = {{"oneOf", *choices}};
      schema.erase("oneOf");
      schema["anyOf"] = {value, reference};
      return;
    }
    schema["anyOf"] = *choices;
    schema["anyOf"].push_back(reference);
    schema.erase("oneOf");
    for (Json& choice : schema["anyOf"]) allowReferences(choice);
    return;
  }
  for (const char* inner : {"properties", "$defs"}) {
    if (const auto found = schema.find(inner); found != schema.end()) {
      for (Json& property : *found) allowReferences(property);
    }
  }
  for (const char* inner : {"items", "additionalProperties"}) {
    if (const auto found = schema.find(inner); found != schema.end()) allowReferences(*found);
  }
}

// The job's own references begin at its place in this schema, and choices are told apart otherwise.
void moveJobReferences(Json& schema) {
  if (schema.is_object()) {
    if (const auto reference = schema.find("$ref"); reference != schema.end()) {
      std::string path = "#/$defs/job" + reference->get<std::string>().substr(1);
      for (std::size_t at; (at = path.find("/oneOf/")) != std::string::npos;) {
        path.replace(at, 7, "/anyOf/");
      }
      *reference = path;
    }
  }
  if (schema.is_structured()) {
    for (Json& inner : schema) moveJobReferences(inner);
  }
}

}  // namespace

Json pipelineSchema() {
  const auto visit = [](spec::FieldVisitor& visitor) {
    Pipeline pipeline;
    visitPipeline(visitor, pipeline);
  };
  Json schema = spec::fieldsSchema(visit, spec::fullTree(visit), {"steps"});
  Json job = spec::jobSchema();
  job.erase("$schema");
  moveJobReferences(job);
  allowReferences(schema["properties"]["steps"]);
  allowReferences(job);
  schema["$defs"]["job"] = std::move(job);
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "Dure pipeline";
  schema["description"] = "Steps with dependencies.";
  return schema;
}

std::string pipelineDocumentation() {
  const auto visit = [](spec::FieldVisitor& visitor) {
    Pipeline pipeline;
    visitPipeline(visitor, pipeline);
  };
  return std::string(kPageIntroduction) +
         spec::fieldTables(pipelineCatalog(), spec::fullTree(visit));
}

}  // namespace dure::pipeline

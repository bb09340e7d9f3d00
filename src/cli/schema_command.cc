#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "pipeline/schema.h"
#include "spec/document.h"
#include "spec/schema.h"

namespace dure::cli {

void addSchema(CLI::App& app, Context& context) {
  auto markdown = std::make_shared<bool>(false);
  auto of_pipelines = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("schema", "Print the JSON Schema of job files, for editors");
  command->footer(
      "With the YAML extension of an editor, put this on top of a job file:\n"
      "  # yaml-language-server: $schema=job.schema.json\n"
      "after  dure schema > job.schema.json");
  command->add_flag("--markdown", *markdown, "The documentation page instead");
  command->add_flag("--pipeline", *of_pipelines, "Of pipeline files instead");
  command->callback([&context, markdown, of_pipelines] {
    if (*markdown) {
      context.out << (*of_pipelines ? pipeline::pipelineDocumentation() : spec::jobDocumentation());
    } else {
      context.out << (*of_pipelines ? pipeline::pipelineSchema() : spec::jobSchema()).dump(2)
                  << "\n";
    }
  });
}

}  // namespace dure::cli

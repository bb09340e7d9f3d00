#include "spec/document.h"

#include <fmt/core.h>

#include <string_view>

#include "base/text.h"
#include "spec/catalog.h"
#include "spec/job_tree.h"
#include "spec/print.h"

namespace dure::spec {
namespace {

constexpr std::string_view kIntroduction = R"(# The job file

A job is one distributed training, written as YAML. This one trains a model that is built in, on two
workers, and needs no program:

```yaml
name: fashion-mnist
workers: 2
train:
  model: convnet
  data: /usr/share/datasets/fashion-mnist
  epochs: 3
  batch: 100
  optimizer: {name: adam, lr: 0.001}
  sync: step
checkpoint: {path: out/checkpoints, every: 200, keep: 3}
output: out/model.h5
```

This one runs a program of one's own, and goes on with two workers if it loses some of its four:

```yaml
name: cifar
strategy: torch
workers: {min: 2, max: 4}
resources: {cpus: 2, memory: 4Gi, gpus: 1}
program:
  command: [python3, train.py, --epochs, 10]
  image: my/image:1
env: {OMP_NUM_THREADS: 2}
volumes:
  - {path: /data, claim: datasets, read_only: true}
restarts: 5
timeouts: {progress: 10m}
```

`dure check job.yaml` says what is wrong with a job, all of it at once, each with its place:

```
job.yaml:2:10: workers: must be 1 or more, got -2
job.yaml:4:3: train.epoch: unknown field; did you mean "train.epochs"?
```

`--set` replaces one field on the command line, by the path it has on this page:
`--set train.epochs=5`, `--set 'workers={min: 2, max: 8}'`, `--set env.NAME=value`.

## How values are written

- A **duration** is text such as `250ms`, `30s`, `5m`, `1h30m` or `2d`; a plain number is seconds. Where
  waiting for ever makes sense, `never` (or `none`) does so.
- A **size** is a number of bytes, or text such as `512Mi`, `2Gi` or `1500M`.
- The **words** of a command and the values in `env` may be any scalar, and are taken as they are
  written: `3` is the text "3".
- Anchors and aliases (`&a`, `*a`) work; merge keys (`<<`) do not. No field may be given twice.
- The file is UTF-8 and at most 1 MiB large.
)";

constexpr std::string_view kTableHead =
    "\n| field | type | default | meaning |\n|---|---|---|---|\n";

// A bar would end the cell.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
  return escaped;
}

std::string code(std::string_view text) { return text.empty() ? "" : fmt::format("`{}`", text); }

bool isSection(const FieldEntry& entry) { return !entry.children.empty(); }

const TreeNode* findNode(const TreeNode& root, const std::string& path) {
  const TreeNode* node = &root;
  for (const std::string& name : split(path, '.')) {
    if (node != nullptr) node = node->find(name);
  }
  return node;
}

std::string defaultText(const TreeNode& defaults, const FieldEntry& entry) {
  // The two that the loader works out from the rest of the job.
  if (entry.path == "name" || entry.path == "strategy") return "derived";
  // A section's default is that of the field its short form stands for.
  const std::string& first = entry.shorthand.empty() ? "" : entry.shorthand.front();
  const std::string path = first.empty() ? entry.path : joinPath(entry.path, first);
  const TreeNode* node = entry.in_list ? nullptr : findNode(defaults, path);
  if (node == nullptr || (node->isScalar() && node->text.empty())) return "";
  if (!node->isScalar() && node->children.empty()) return "";
  return node->isMap() ? "" : code(printOnOneLine(*node));
}

std::string typeText(const FieldEntry& entry) {
  if (!entry.before.empty()) return "text";
  if (!entry.alias_of.empty()) return "as " + code(entry.alias_of);
  std::vector<std::string> kinds = entry.kinds;
  for (std::string& kind : kinds) {
    // The examples in parentheses are for messages; this page explains them once.
    kind = kind.starts_with("a ") ? kind.substr(2, kind.find(" (") - 2) : code(kind);
  }
  if (!entry.range.empty()) kinds.front() += ", " + entry.range;
  if (!entry.range.empty() && kinds.size() > 1) kinds[kinds.size() - 2] += ",";
  return kinds.size() > 2 && entry.range.empty() ? join(kinds, ", ") : alternatives(kinds);
}

std::string row(const TreeNode& defaults, const FieldEntry& entry, std::string_view name) {
  std::string meaning = entry.doc;
  if (!entry.example.empty()) meaning += fmt::format(" Example: {}.", code(entry.example));
  return fmt::format("| {} | {} | {} | {} |\n", code(name), cell(typeText(entry)),
                     cell(defaultText(defaults, entry)), cell(meaning));
}

// The rows of what is inside of `section`, at any depth.
std::string rowsInside(const Catalog& catalog, const TreeNode& defaults,
                       const FieldEntry& section) {
  std::string rows;
  for (const FieldEntry& entry : catalog.entries()) {
    if (!entry.path.starts_with(section.path + ".")) continue;
    const std::string name = entry.path.substr(section.path.size() + 1);
    rows += row(defaults, entry, name);
  }
  return rows;
}

}  // namespace

std::string fieldTables(const Catalog& catalog, const TreeNode& defaults) {
  std::string page(kTableHead);
  for (const std::string& name : catalog.entries().front().children) {
    const FieldEntry& entry = *catalog.find(name);
    std::string line = row(defaults, entry, name);
    // A section's name leads to its table.
    if (isSection(entry)) line.replace(2, name.size() + 2, fmt::format("[`{}`](#{})", name, name));
    page += line;
  }
  for (const std::string& name : catalog.entries().front().children) {
    const FieldEntry& entry = *catalog.find(name);
    if (!isSection(entry)) continue;
    page += fmt::format("\n## {}\n\n{}\n", name, entry.doc);
    page += kTableHead;
    page += rowsInside(catalog, defaults, entry);
  }
  return page;
}

std::string jobDocumentation() {
  std::string page(kIntroduction);
  page += "\n## The job\n";
  return page + fieldTables(jobCatalog(), fullTree(Job{}));
}

}  // namespace dure::spec

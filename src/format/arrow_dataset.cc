#include "format/arrow_dataset.h"

#include <algorithm>
#include <set>

#include <fmt/core.h>

#include "base/files.h"
#include "base/text.h"
#include "format/arrow_split.h"
#include "format/json_text.h"

namespace dure::format {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxJson = 64u << 20u;

// A split with what its files say about classes.
struct Opened {
  std::unique_ptr<SourceSplit> split;
  std::vector<std::string> class_names;
};

Result<json> readJsonFile(const std::string& path) {
  const auto text = readFile(path, kMaxJson);
  if (!text) return text.error();
  return parseJson(path, *text);
}

// features is {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}, …}.
std::vector<std::string> classNames(const json& info, const std::string& column) {
  std::vector<std::string> names;
  const auto features = info.is_object() ? info.find("features") : info.end();
  if (features == info.end() || !features->is_object() || !features->contains(column)) return names;
  const json& feature = (*features)[column];
  if (textAt(feature, "_type") != "ClassLabel" || !feature.contains("names")) return names;
  const json& list = feature["names"];
  if (!list.is_array()) return names;
  for (const json& name : list) {
    if (!name.is_string()) return {};
    names.push_back(name.get<std::string>());
  }
  return names;
}

// From dataset_info.json beside the files, or else from what `datasets` put into the schema.
Result<std::vector<std::string>> findClassNames(const std::string& directory,
                                                const ArrowSchema& schema,
                                                const std::string& column) {
  const std::string path = directory + "/dataset_info.json";
  if (!directory.empty() && fileExists(path)) {
    const auto info = readJsonFile(path);
    if (!info) return info.error();
    return classNames(*info, column);
  }
  // Others may write what they like there: only what is understood counts.
  const auto added = parseJson("huggingface", schema.huggingface);
  if (!added || !added->is_object() || !added->contains("info")) return std::vector<std::string>();
  return classNames((*added)["info"], column);
}

Result<Opened> openFiles(const std::string& name, const std::string& directory,
                         const std::vector<std::string>& paths, const DatasetOptions& options) {
  std::vector<ArrowFile> files;
  for (const std::string& path : paths) {
    const auto file = mapFile(path);
    if (!file) return file.error();
    auto arrow = readArrow(*file);
    if (!arrow) return std::move(arrow).error();
    files.push_back(*std::move(arrow));
  }
  if (files.empty()) return Error(Code::kInvalid, name + ": there are no Arrow files");
  const ArrowSchema schema = files[0].schema;
  auto split = makeArrowSplit(name, std::move(files), options);
  if (!split) return std::move(split).error();
  const auto column = labelColumn(schema, options);
  if (!column) return Error(column.error()).during(name);
  auto names = findClassNames(directory, schema, schema.fields[*column].name);
  if (!names) return std::move(names).error();
  return Opened{.split = *std::move(split), .class_names = *std::move(names)};
}

// A folder with state.json, which lists the files.
Result<Opened> openSaved(const std::string& directory, const DatasetOptions& options) {
  const std::string path = directory + "/state.json";
  const auto state = readJsonFile(path);
  if (!state) return state.error();
  const auto wrong = [&](const std::string& what) {
    return Error(Code::kInvalid, path + ": " + what);
  };
  if (!state->is_object() || !state->contains("_data_files")) return wrong("lists no _data_files");
  if (state->contains("_indices_data_files") && !(*state)["_indices_data_files"].empty()) {
    return wrong("the rows are chosen by an index, which is not read; save after flatten_indices");
  }
  const json& list = (*state)["_data_files"];
  if (!list.is_array()) return wrong("_data_files is not a list");
  std::vector<std::string> paths;
  std::set<std::string> names;
  for (const json& entry : list) {
    const std::string name = textAt(entry, "filename");
    if (name.empty() || name.find('/') != std::string::npos || name == "..") {
      return wrong("a file in _data_files is not in this directory");
    }
    if (!names.insert(name).second) return wrong("_data_files lists " + name + " twice");
    paths.push_back(fmt::format("{}/{}", directory, name));
  }
  return openFiles(directory, directory, paths, options);
}

// Where the split of one of these names is: a folder as it was saved, or a file NAME.arrow.
Result<Opened> openNamed(const DatasetOptions& options, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::string path = fmt::format("{}/{}", options.path, name);
    if (fileExists(path + "/state.json")) return openSaved(path, options);
    for (const std::string& file : {path + ".arrow", path}) {
      if (file.ends_with(".arrow") && fileExists(file)) {
        return openFiles(file, options.path, {file}, options);
      }
    }
  }
  return Opened{};
}

// dataset_dict.json is checked against what is there, so that a folder that got lost is missed.
Status checkSplits(const std::string& directory) {
  const std::string path = directory + "/dataset_dict.json";
  if (!fileExists(path)) return {};
  const auto dict = readJsonFile(path);
  if (!dict) return dict.error();
  if (!dict->is_object() || !dict->contains("splits") || !(*dict)["splits"].is_array()) {
    return Error(Code::kInvalid, path + ": lists no splits");
  }
  for (const json& split : (*dict)["splits"]) {
    if (!split.is_string()) return Error(Code::kInvalid, path + ": a split has no name");
    const std::string folder = directory + "/" + split.get<std::string>();
    if (!isDirectory(folder)) {
      return Error(Code::kNotFound, fmt::format("{}: listed in {} but not there", folder, path));
    }
  }
  return {};
}

}  // namespace

bool looksLikeArrow(const std::string& directory) {
  const auto files = listDirectory(directory);
  return std::any_of(files.begin(), files.end(), [](const std::string& file) {
    return file == "dataset_dict.json" || file == "state.json" || file.ends_with(".arrow");
  });
}

Result<Source> openArrow(const DatasetOptions& options) {
  const auto single = [](Result<Opened> opened) -> Result<Source> {
    if (!opened) return std::move(opened).error();
    return Source{.train = std::move(opened->split),
                  .test = nullptr,
                  .class_names = std::move(opened->class_names)};
  };
  if (!isDirectory(options.path)) {
    return single(openFiles(options.path, "", {options.path}, options));
  }
  if (fileExists(options.path + "/state.json")) return single(openSaved(options.path, options));
  if (auto complete = checkSplits(options.path); !complete) return std::move(complete).error();
  auto train = openNamed(options, trainNames(options));
  if (!train) return std::move(train).error();
  if (!train->split) {
    return Error(Code::kNotFound, fmt::format("{}: there is no split {}", options.path,
                                              join(trainNames(options), " or ")));
  }
  auto test = openNamed(options, testNames(options));
  if (!test) return std::move(test).error();
  return Source{.train = std::move(train->split),
                .test = std::move(test->split),
                .class_names = std::move(train->class_names)};
}

}  // namespace dure::format

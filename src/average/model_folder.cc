#include <algorithm>
#include <filesystem>

#include "average/averager.h"
#include "base/files.h"

namespace dure::average {
namespace {

// Numbers in names by their values: 2-model.h5 comes before 10-model.h5.
bool comesBefore(const std::string& a, const std::string& b) {
  const auto digit = [](char letter) { return letter >= '0' && letter <= '9'; };
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (!digit(a[i]) || !digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
      continue;
    }
    const auto number = [&](const std::string& text, std::size_t& at) {
      const std::size_t begin = at;
      while (at < text.size() && digit(text[at])) ++at;
      std::string digits = text.substr(begin, at - begin);
      digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
      return digits;
    };
    const std::string left = number(a, i);
    const std::string right = number(b, j);
    if (left.size() != right.size()) return left.size() < right.size();
    if (left != right) return left < right;
  }
  return a.size() - i < b.size() - j || (a.size() - i == b.size() - j && a < b);
}

}  // namespace

Result<std::vector<std::string>> findModels(const std::string& folder, const std::string& output) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return Error(Code::kNotFound, folder + ": there is no such directory");
  }
  std::vector<std::string> names = listDirectory(folder);
  std::sort(names.begin(), names.end(), comesBefore);
  for (const char* ending : {".h5", ".safetensors", ".pt"}) {
    std::vector<std::string> found;
    for (const std::string& name : names) {
      const std::string path = (std::filesystem::path(folder) / name).string();
      if (!name.ends_with(ending) || name.starts_with(".")) continue;
      if (std::filesystem::equivalent(path, output, error) ||
          std::filesystem::is_directory(path, error))
        continue;
      found.push_back(path);
    }
    if (!found.empty()) return found;
  }
  return Error(Code::kNotFound, folder + ": there is no model in it (.h5, .safetensors or .pt)");
}

}  // namespace dure::average

#include "spec/field_places.h"

#include <algorithm>

namespace dure::spec {

Place FieldPlaces::find(const std::string& path) const {
  std::string around = path;
  while (true) {
    if (const auto found = given_.find(around); found != given_.end()) {
      if (around == path) return found->second;
      // An override did not forget a field: the job did.
      return {found->second.at.source == 0 ? found->second.at : Position{}, path};
    }
    const std::size_t dot = around.rfind('.');
    if (dot == std::string::npos) return {{}, path};
    around.resize(dot);
  }
}

bool FieldPlaces::sound(std::string_view path) const {
  const auto within = [](std::string_view inner, std::string_view outer) {
    return inner.starts_with(outer) && (inner.size() == outer.size() ||
                                        inner[outer.size()] == '.' || inner[outer.size()] == '[');
  };
  return std::none_of(broken_.begin(), broken_.end(), [&](const std::string& broken) {
    return within(broken, path) || within(path, broken);
  });
}

}  // namespace dure::spec

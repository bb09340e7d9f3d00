#include "format/json_text.h"

#include <set>
#include <vector>

#include <fmt/core.h>

namespace dure::format {
namespace {

using nlohmann::json;

// Sees every value before it is kept, and says what is wrong with it.
class Watcher {
 public:
  // Past a fault everything is dropped, so that a hostile text costs time only.
  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    if (!fault_.empty()) return false;
    if (depth > kMaxDepth) {
      fault_ = "the JSON is nested too deep";
      return false;
    }
    if (event == json::parse_event_t::object_start) keys_.emplace_back();
    if (event == json::parse_event_t::object_end) keys_.pop_back();
    if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second)
        fault_ = fmt::format("the key '{}' is there twice", key);
    }
    return fault_.empty();
  }

  const std::string& fault() const { return fault_; }

 private:
  static constexpr int kMaxDepth = 64;
  std::vector<std::set<std::string>> keys_;
  std::string fault_;
};

}  // namespace

Result<json> parseJson(const std::string& name, std::string_view text) {
  Watcher watcher;
  try {
    json value = json::parse(text, [&](int depth, json::parse_event_t event, json& parsed) {
      return watcher(depth, event, parsed);
    });
    if (!watcher.fault().empty()) return Error(Code::kInvalid, name + ": " + watcher.fault());
    return value;
  } catch (const json::parse_error& error) {
    return Error(Code::kInvalid,
                 fmt::format("{}: at offset {}: this is not JSON", name, error.byte));
  } catch (const json::exception& error) {
    return Error(Code::kInvalid, fmt::format("{}: this is not JSON: {}", name, error.what()));
  }
}

std::string textAt(const json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace dure::format

#include "kube/test_request.h"

#include <fnmatch.h>

#include <algorithm>
#include <sstream>
#include <vector>

namespace dure::kube {
namespace {

using nlohmann::json;

std::string unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      plain += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::vector<std::string> pieces(const std::string& text, char separator) {
  std::vector<std::string> found;
  std::istringstream stream(text);
  for (std::string piece; std::getline(stream, piece, separator);) {
    if (!piece.empty()) found.push_back(piece);
  }
  return found;
}

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

// The terms of a selector: commas within parentheses separate values.
std::vector<std::string> termsOf(const std::string& selector) {
  std::vector<std::string> terms(1);
  int depth = 0;
  for (const char c : selector) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  std::erase(terms, "");
  return terms;
}

using Lookup = std::function<std::optional<std::string>(const std::string& key)>;

bool fitsTerm(const std::string& term, const Lookup& lookup) {
  for (const char* word : {" notin ", " in "}) {
    const auto at = term.find(word);
    if (at == std::string::npos) continue;
    const auto value = lookup(trimmed(term.substr(0, at)));
    const std::string list = term.substr(term.find('(', at) + 1);
    bool among = false;
    for (const std::string& each : pieces(list.substr(0, list.find(')')), ',')) {
      among = among || value == trimmed(each);
    }
    return among == (std::string(word) == " in ");
  }
  if (const auto at = term.find("!="); at != std::string::npos) {
    return lookup(trimmed(term.substr(0, at))) != trimmed(term.substr(at + 2));
  }
  if (const auto at = term.find('='); at != std::string::npos) {
    const auto value = term.find_first_not_of('=', at);
    return lookup(trimmed(term.substr(0, at))) ==
           (value == std::string::npos ? "" : trimmed(term.substr(value)));
  }
  if (term.starts_with('!')) return !lookup(term.substr(1));
  return lookup(trimmed(term)).has_value();
}

bool fitsAll(const std::string& selector, const Lookup& lookup) {
  const auto terms = termsOf(selector);
  return std::all_of(terms.begin(), terms.end(),
                     [&](const std::string& term) { return fitsTerm(term, lookup); });
}

std::string verbOf(const std::string& method, const ApiRequest& request) {
  const bool one = !request.name.empty();
  if (method == "GET" && !one) return request.value("watch") == "true" ? "watch" : "list";
  if (method == "GET") return "get";
  if (method == "POST") return "create";
  if (method == "PUT") return "update";
  if (method == "PATCH") return "patch";
  if (method == "DELETE") return one ? "delete" : "deletecollection";
  return "";
}

}  // namespace

std::string ApiRequest::value(const std::string& parameter) const {
  const auto found = query.find(parameter);
  return found == query.end() ? "" : found->second;
}

ApiRequest parseRequest(const TestServer::Asked& asked) {
  ApiRequest request;
  const auto question = asked.target.find('?');
  if (question != std::string::npos) {
    for (const std::string& pair : pieces(asked.target.substr(question + 1), '&')) {
      const auto equals = pair.find('=');
      request.query[pair.substr(0, equals)] = unescaped(pair.substr(equals + 1));
    }
  }
  std::vector<std::string> words = pieces(asked.target.substr(0, question), '/');
  for (std::string& word : words) word = unescaped(word);
  const auto take = [&]() -> std::string {
    if (words.empty()) return "";
    std::string word = std::move(words.front());
    words.erase(words.begin());
    return word;
  };
  const bool grouped = take() == "apis";
  request.api = take();
  if (grouped) request.api += "/" + take();
  request.plural = take();
  if (request.plural == "namespaces" && words.size() >= 2) {
    request.name_space = take();
    request.plural = take();
  }
  request.name = take();
  request.part = take();
  constexpr std::string_view kType = "Content-Type: ";
  if (const auto at = asked.headers.find(kType); at != std::string::npos) {
    const auto begin = at + kType.size();
    request.content_type = asked.headers.substr(begin, asked.headers.find("\r\n", begin) - begin);
  }
  request.body = json::parse(asked.body, nullptr, false);
  request.verb = verbOf(asked.method, request);
  if (request.verb == "create" && request.body.is_object()) {
    const json metadata = request.body.value("metadata", json::object());
    request.name = metadata.value("name", metadata.value("generateName", ""));
  }
  return request;
}

bool RequestMatch::fits(const ApiRequest& request) const {
  return (verb.empty() || verb == request.verb) && (plural.empty() || plural == request.plural) &&
         (part.empty() || part == request.part) &&
         (name.empty() || fnmatch(name.c_str(), request.name.c_str(), 0) == 0);
}

bool isSelected(const json& object, const ApiRequest& request) {
  const json metadata = object.value("metadata", json::object());
  const json labels = metadata.value("labels", json::object());
  const auto label = [&](const std::string& key) -> std::optional<std::string> {
    const auto found = labels.find(key);
    if (found == labels.end()) return std::nullopt;
    return found->get<std::string>();
  };
  // What an object does not say is empty.
  const auto field = [&](const std::string& path) -> std::optional<std::string> {
    const json* at = &object;
    for (const std::string& name : pieces(path, '.')) {
      const auto found = at->find(name);
      if (!at->is_object() || found == at->end()) return "";
      at = &*found;
    }
    return at->is_string() ? at->get<std::string>() : at->dump();
  };
  return (request.name_space.empty() || metadata.value("namespace", "") == request.name_space) &&
         fitsAll(request.value("labelSelector"), label) &&
         fitsAll(request.value("fieldSelector"), field);
}

}  // namespace dure::kube

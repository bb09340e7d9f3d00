#pragma once

#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "kube/client.h"
#include "kube/test_server.h"

namespace dure::kube {

// A request as an API server understands it.
struct ApiRequest {
  // As RBAC names it: get, list, watch, create, update, patch, delete, deletecollection.
  std::string verb;
  std::string api;     // "v1", "batch/v1"
  std::string plural;  // "pods"
  std::string name_space;
  std::string name;  // of what is created, too, as far as the client chooses it
  std::string part;  // "status", "log"
  std::map<std::string, std::string> query;
  std::string content_type;
  nlohmann::json body;

  std::string value(const std::string& parameter) const;  // of the query; empty: not given
};

// What the client asks for. Its verb is empty if that is nothing that an API server knows.
ApiRequest parseRequest(const TestServer::Asked& asked);

// Which requests are meant: those that agree with all that is given.
struct RequestMatch {
  std::string verb;
  std::string plural;
  std::string name;  // a shell pattern: "train-1-journal-*"
  std::string part;

  bool fits(const ApiRequest& request) const;
};

// Whether an object is one of those that a list or watch asks for: "a=b,c!=d,e in (f,g),!h" of
// labels, "spec.nodeName=n" of fields.
bool isSelected(const nlohmann::json& object, const ApiRequest& request);

}  // namespace dure::kube

#pragma once

#include <string>

namespace dure::pipeline {

// Whether a service of this machine answers at the port: takes a connection, and if `path` is not
// empty, answers a GET of it with 200. Takes a second at the most.
bool isReady(int port, const std::string& path);

}  // namespace dure::pipeline

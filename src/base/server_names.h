#pragma once

// What the model server finds in its environment.
namespace dure::server_variables {

inline constexpr const char* kHost =
    "DURE_SERVE_HOST";  // the address to listen on, if none is given

}  // namespace dure::server_variables

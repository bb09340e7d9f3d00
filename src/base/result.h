#pragma once

#include <string>
#include <utility>
#include <variant>

namespace dure {

// What kind of failure it was, for callers that must branch. The text is for people only.
enum class Code {
  kInvalid,      // the caller's input is wrong: exit code 2
  kNotFound,     // the thing named does not exist
  kExists,       // the thing to be made is there already
  kConflict,     // somebody else changed it meanwhile: read it again
  kUnavailable,  // the machine, the cluster or a peer cannot do it now
  kDenied,       // not allowed
  kIo,           // the operating system said no
};

class Error {
 public:
  Error(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // Says what the caller was doing: "read job.yaml: No such file or directory".
  Error during(const std::string& what) && { return Error(code_, what + ": " + message_); }

 private:
  Code code_;
  std::string message_;
};

// The value, or why there is none. Asking for the one that is not there is a bug and throws
// std::bad_variant_access.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Error error) : state_(std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : state_(std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<std::monostate, Error> state_;
};

using Status = Result<void>;

// The current errno as an Error, in the operating system's words.
Error systemError(const std::string& what);

}  // namespace dure

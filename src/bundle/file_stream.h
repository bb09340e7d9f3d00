#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

// Files on their way from one machine to another through a pipe: before each a line of JSON that
// tells its path and size, then its bytes; at the end a line that tells how many there were, so
// that a pipe that broke is not taken for the end. Whatever their size, little memory is used.
namespace dure::bundle {

// Sends the file, or all files below the directory. Links are not followed.
Status sendFiles(const std::string& path, const std::function<Status(std::string_view)>& send);

// Puts what comes under `target`: the file, or the directory. Each file is written under another
// name and renamed when it is whole.
class FileReceiver {
 public:
  explicit FileReceiver(std::string target) : target_(std::move(target)) {}
  ~FileReceiver();

  Status take(std::string_view bytes);
  // Unavailable if not everything has come.
  Status finish();

  const std::string& target() const { return target_; }
  std::int64_t files() const { return files_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  Status begin(const std::string& line);
  Status end();

  const std::string target_;
  std::string line_;  // as far as it has come
  std::string path_;  // of the file that is coming; empty: none
  std::string temporary_;
  Fd file_;
  std::int64_t left_ = 0;
  std::int64_t files_ = 0;
  std::int64_t bytes_ = 0;
  bool finished_ = false;
};

}  // namespace dure::bundle

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/sha256.h"

// Files on their way from one machine to another through a pipe: before each a line of JSON that
// tells its path and size, then its bytes and a line with their SHA-256; at the end a line that
// tells how many there were, so that a pipe that broke is not taken for the end. Whatever their
// size, little memory is used.
namespace dure::bundle {

// A file, and what it is to be called below the target; empty: the target itself.
struct NamedFile {
  std::string path;
  std::string name;
};
using SendBytes = std::function<Status(std::string_view)>;

// The file, or all files below the directory, in the order of their names. Links are not followed.
Result<std::vector<NamedFile>> filesOf(const std::string& path);
Status sendFiles(const std::vector<NamedFile>& files, const SendBytes& send);
Status sendFiles(const std::string& path, const SendBytes& send);

// Puts what comes under `target`: the file, or the directory. Each file is written under another
// name and renamed when it is whole and its hash is right.
class FileReceiver {
 public:
  explicit FileReceiver(std::string target) : target_(std::move(target)) {}
  ~FileReceiver();

  Status take(std::string_view bytes);
  // Unavailable if not everything has come.
  Status finish();

  // Whether all files have come.
  bool isFinished() const { return finished_; }
  const std::string& target() const { return target_; }
  std::int64_t files() const { return files_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  Status begin(const std::string& line);
  Status end(const std::string& line);

  const std::string target_;
  std::string line_;  // as far as it has come
  std::string path_;  // of the file that is coming; empty: none
  std::string temporary_;
  Fd file_;  // open until its hash has come
  Sha256 hash_;
  std::int64_t left_ = 0;
  std::int64_t files_ = 0;
  std::int64_t bytes_ = 0;
  bool finished_ = false;
};

// Takes a stream from `input` to its end and puts its files at `target`, all of them or none: what
// is there already stays, since it came from whoever was quicker with the same. What earlier
// streams that broke have left beside it goes.
Status receiveFolder(int input, const std::string& target);

}  // namespace dure::bundle

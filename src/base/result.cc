#include "base/result.h"

#include <cerrno>
#include <cstring>

namespace dure {

Error systemError(const std::string& what) {
  const int number = errno;
  Code code = Code::kIo;
  if (number == ENOENT) code = Code::kNotFound;
  if (number == EEXIST) code = Code::kExists;
  if (number == EACCES || number == EPERM || number == EROFS) code = Code::kDenied;
  return Error(code, what + ": " + strerror(number));
}

}  // namespace dure

// Any bytes on a connection are requests, or are refused; and it makes no difference in which
// pieces they come. Nothing that was refused is taken for a request after all.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "serve/http_request.h"

namespace {

constexpr dure::serve::HttpLimits kLimits{.head = 512, .body = 1024};

// What became of the bytes, given `size` of them at a time.
std::vector<std::string> takenIn(std::string_view bytes, std::size_t size) {
  dure::serve::HttpParser parser(kLimits);
  std::vector<std::string> taken;
  using State = dure::serve::HttpParser::State;
  for (std::size_t at = 0; at < bytes.size() && parser.state() != State::kFailed;) {
    const std::string_view piece = bytes.substr(at, size);
    const std::size_t used = parser.feed(piece);
    if (used > piece.size() || (used < piece.size() && parser.state() != State::kDone &&
                                parser.state() != State::kFailed)) {
      std::cerr << "broken: bytes are left although more are wanted\n";
      std::abort();
    }
    at += used;
    if (parser.state() != State::kDone) continue;
    const auto& request = parser.request();
    std::string target;
    static_cast<void>(dure::serve::decodeTarget(request.target, target));
    if (request.body.size() > kLimits.body) std::abort();
    taken.push_back(request.method + " " + request.target + "\n" + request.body);
    parser.reset();
  }
  if (parser.state() == State::kFailed) taken.push_back(std::to_string(parser.status()));
  return taken;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto whole = takenIn(bytes, bytes.size() + 1);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}}) {
    if (takenIn(bytes, piece) == whole) continue;
    std::cerr << "broken: pieces of " << piece << " bytes are read in another way\n";
    std::abort();
  }
  return 0;
}

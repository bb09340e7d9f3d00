#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dure::serve {

// A request of HTTP/1.1 or 1.0 with its whole body.
struct HttpRequest {
  std::string method;
  std::string target;  // as it was sent: "/v1/models/a:predict?x=1"
  bool keep_alive = true;
  bool expects_continue = false;
  std::vector<std::pair<std::string, std::string>> headers;  // names in small letters
  std::string body;

  // "" if there is none.
  std::string_view header(std::string_view name) const;
};

struct HttpLimits {
  std::size_t head = 16u << 10u;
  std::size_t body = 32u << 20u;
};

// Takes the bytes of a connection piece by piece and makes requests of them. Whatever two servers
// could read in two ways is refused: a length given twice or both ways, folded lines, spaces before
// a colon, lines that end in LF alone.
class HttpParser {
 public:
  explicit HttpParser(HttpLimits limits) : limits_(limits) {}

  enum class State {
    kHead,    // needs more bytes of the head
    kBody,    // the head is there, and more bytes of the body are needed
    kDone,    // request() is whole
    kFailed,  // status() and why() say what to answer before the connection is closed
  };

  // Uses up a part of `bytes`, and returns how many of them: all, unless the request is whole, or
  // it failed.
  std::size_t feed(std::string_view bytes);
  State state() const { return state_; }
  // Whether anything of the request has come.
  bool begun() const { return !head_.empty() || state_ != State::kHead; }

  HttpRequest& request() { return request_; }
  // Ready for the next one on the connection.
  void reset();
  // With kFailed.
  int status() const { return status_; }
  const std::string& why() const { return why_; }
  // How much of a body is still to come, as far as that is known.
  std::size_t bodyLeft() const { return framing_ == Framing::kLength ? left_ : 0; }

 private:
  enum class Framing { kNone, kLength, kChunkSize, kChunkData, kChunkEnd, kTrailer };

  std::size_t feedHead(std::string_view bytes);
  std::size_t feedBody(std::string_view bytes);
  std::size_t feedLine(std::string_view bytes);
  void readHead();
  bool readRequestLine(std::string_view line);
  bool readHeader(std::string_view line);
  void chooseFraming();
  void readChunkLine();
  void fail(int status, std::string why);

  HttpLimits limits_;
  State state_ = State::kHead;
  Framing framing_ = Framing::kNone;
  std::string head_;  // the bytes of the head so far
  std::string line_;  // of a chunk's size or a trailer
  std::size_t left_ = 0;
  std::size_t trailer_ = 0;
  bool old_ = false;  // HTTP/1.0
  HttpRequest request_;
  int status_ = 0;
  std::string why_;
};

// The text of a target without "%41" and the like; false if it has such that are none.
bool decodeTarget(std::string_view target, std::string& out);

}  // namespace dure::serve

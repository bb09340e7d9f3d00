// Any bytes on the connection between agent and coordinator are refused, or mean something that is
// encoded and decoded again without a change. How the bytes are cut on the way makes no difference.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "net/frame.h"
#include "protocol/protocol.h"

namespace {

using namespace dure;

void require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "broken: " << what << "\n";
  std::abort();
}

// What was understood is said the same way ever after.
template <typename Message>
void checkMessage(std::string_view payload) {
  const auto first = protocol::decode<Message>(payload);
  if (!first) {
    require(first.error().code() == Code::kInvalid, "a message is refused as invalid");
    return;
  }
  const std::string once = protocol::encode(*first);
  const auto second = protocol::decode<Message>(once);
  require(static_cast<bool>(second), "an encoded message can be decoded");
  require(protocol::encode(*second) == once, "a message survives its journey");
}

void checkChunk(std::string_view payload) {
  const auto chunk = protocol::decodeChunk(payload);
  if (!chunk) {
    require(payload.size() < 8, "only a short chunk is refused");
    return;
  }
  require(protocol::encodeChunk(chunk->number, chunk->bytes) == payload,
          "a chunk survives its journey");
}

void checkPayload(const net::Frame& frame) {
  switch (static_cast<protocol::MessageType>(frame.type)) {
    case protocol::MessageType::kHello:
      return checkMessage<protocol::Hello>(frame.payload);
    case protocol::MessageType::kExited:
      return checkMessage<protocol::Exited>(frame.payload);
    case protocol::MessageType::kBeat:
      return checkMessage<protocol::Beat>(frame.payload);
    case protocol::MessageType::kWelcome:
      return checkMessage<protocol::Welcome>(frame.payload);
    case protocol::MessageType::kRefused:
      return checkMessage<protocol::Refused>(frame.payload);
    case protocol::MessageType::kUnable:
      return checkMessage<protocol::Unable>(frame.payload);
    case protocol::MessageType::kNames:
      return checkMessage<protocol::Names>(frame.payload);
    case protocol::MessageType::kStart:
      return checkMessage<protocol::Start>(frame.payload);
    case protocol::MessageType::kStop:
      return checkMessage<protocol::Stop>(frame.payload);
    case protocol::MessageType::kExec:
      return checkMessage<protocol::Exec>(frame.payload);
    case protocol::MessageType::kExecExited:
      return checkMessage<protocol::ExecExited>(frame.payload);
    case protocol::MessageType::kExecCancel:
      return checkMessage<protocol::ExecCancel>(frame.payload);
    case protocol::MessageType::kOutput:
    case protocol::MessageType::kMetric:
    case protocol::MessageType::kExecOutput:
      return checkChunk(frame.payload);
    case protocol::MessageType::kLoaded:
    case protocol::MessageType::kReady:
    case protocol::MessageType::kNamed:
    case protocol::MessageType::kFinished:
    case protocol::MessageType::kAlive:
    case protocol::MessageType::kFolder:  // bytes, for the folder's own target
      return;
  }
}

struct Cut {
  std::vector<std::string> frames;  // type and payload
  bool refused = false;
};

// The stream in pieces of `piece` bytes; a reader with the limit that strangers get.
Cut cut(std::string_view stream, std::size_t piece, std::size_t limit) {
  net::FrameReader reader;
  reader.setLimit(limit);
  Cut result;
  while (!stream.empty() && !result.refused) {
    reader.feed(stream.substr(0, piece));
    stream.remove_prefix(std::min(piece, stream.size()));
    while (true) {
      const auto next = reader.next();
      if (!next) {
        result.refused = true;
        break;
      }
      if (!*next) break;
      const net::Frame& frame = **next;
      require(frame.payload.size() < limit, "a frame is within the limit");
      result.frames.push_back(std::string(1, static_cast<char>(frame.type)) +
                              std::string(frame.payload));
    }
  }
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  // The first byte says how the rest is cut; then it is a stream, and also a single payload of
  // every kind, so that no length has to be guessed to reach the decoders.
  const std::size_t piece = std::size_t{data[0]} + 1;
  const std::string_view stream = input.substr(1);
  const Cut whole = cut(stream, stream.size() + 1, net::kMaxFrame);
  const Cut pieces = cut(stream, piece, net::kMaxFrame);
  require(whole.frames == pieces.frames && whole.refused == pieces.refused,
          "how a stream is cut makes no difference");
  cut(stream, piece, 64);
  std::string again;
  for (const std::string& frame : whole.frames) {
    net::appendFrame(again, static_cast<std::uint8_t>(frame[0]), std::string_view(frame).substr(1));
    checkPayload({static_cast<std::uint8_t>(frame[0]), std::string_view(frame).substr(1)});
  }
  require(stream.substr(0, again.size()) == again, "frames are written as they were read");
  for (int type = 1; type <= static_cast<int>(protocol::MessageType::kExecCancel); ++type) {
    checkPayload({static_cast<std::uint8_t>(type), stream});
  }
  return 0;
}

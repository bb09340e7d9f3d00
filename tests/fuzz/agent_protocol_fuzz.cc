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
  const auto first = decode<Message>(payload);
  if (!first) {
    require(first.error().code() == Code::kInvalid, "a message is refused as invalid");
    return;
  }
  const std::string once = encode(*first);
  const auto second = decode<Message>(once);
  require(static_cast<bool>(second), "an encoded message can be decoded");
  require(encode(*second) == once, "a message survives its journey");
}

void checkChunk(std::string_view payload) {
  const auto chunk = decodeChunk(payload);
  if (!chunk) {
    require(payload.size() < 8, "only a short chunk is refused");
    return;
  }
  require(encodeChunk(chunk->number, chunk->bytes) == payload, "a chunk survives its journey");
}

void checkPayload(const Frame& frame) {
  switch (static_cast<MessageType>(frame.type)) {
    case MessageType::kHello:
      return checkMessage<Hello>(frame.payload);
    case MessageType::kExited:
      return checkMessage<Exited>(frame.payload);
    case MessageType::kBeat:
      return checkMessage<Beat>(frame.payload);
    case MessageType::kWelcome:
      return checkMessage<Welcome>(frame.payload);
    case MessageType::kRefused:
      return checkMessage<Refused>(frame.payload);
    case MessageType::kUnable:
      return checkMessage<Unable>(frame.payload);
    case MessageType::kNames:
      return checkMessage<Names>(frame.payload);
    case MessageType::kStart:
      return checkMessage<Start>(frame.payload);
    case MessageType::kStop:
      return checkMessage<Stop>(frame.payload);
    case MessageType::kExec:
      return checkMessage<Exec>(frame.payload);
    case MessageType::kExecExited:
      return checkMessage<ExecExited>(frame.payload);
    case MessageType::kExecCancel:
      return checkMessage<ExecCancel>(frame.payload);
    case MessageType::kOutput:
    case MessageType::kMetric:
    case MessageType::kExecOutput:
      return checkChunk(frame.payload);
    case MessageType::kLoaded:
    case MessageType::kReady:
    case MessageType::kNamed:
    case MessageType::kFinished:
    case MessageType::kAlive:
    case MessageType::kFolder:  // bytes, for the folder's own target
      return;
  }
}

struct Cut {
  std::vector<std::string> frames;  // type and payload
  bool refused = false;
};

// The stream in pieces of `piece` bytes; a reader with the limit that strangers get.
Cut cut(std::string_view stream, std::size_t piece, std::size_t limit) {
  FrameReader reader;
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
      const Frame& frame = **next;
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
  const Cut whole = cut(stream, stream.size() + 1, kMaxFrame);
  const Cut pieces = cut(stream, piece, kMaxFrame);
  require(whole.frames == pieces.frames && whole.refused == pieces.refused,
          "how a stream is cut makes no difference");
  cut(stream, piece, 64);
  std::string again;
  for (const std::string& frame : whole.frames) {
    appendFrame(again, static_cast<std::uint8_t>(frame[0]), std::string_view(frame).substr(1));
    checkPayload({static_cast<std::uint8_t>(frame[0]), std::string_view(frame).substr(1)});
  }
  require(stream.substr(0, again.size()) == again, "frames are written as they were read");
  for (int type = 1; type <= static_cast<int>(MessageType::kExecCancel); ++type) {
    checkPayload({static_cast<std::uint8_t>(type), stream});
  }
  return 0;
}

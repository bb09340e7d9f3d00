#include "protocol/protocol.h"

#include <nlohmann/json.hpp>

// The library looks for these beside the type.
namespace dure {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExitStatus, code, signal)
}

namespace dure::protocol {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Hello, version, secret, run, generation, task, host, pid)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Welcome, heartbeat_ms, stop_ms, lease_ms, folder_bytes,
                                   folder_hash)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Refused, reason)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Unable, reason)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Names, names, patience_ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Start::Process, argv, env, delay_ms, label)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Start, workdir, files, env, processes, tell_loaded)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Exited, process, status, at_ms, ran_ms, asked, error, tail,
                                   errors, reported)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Beat, silent_ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Stop, grace_ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Exec, id, task, argv)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExecExited, id, status, error)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExecCancel, id)

namespace {

constexpr std::size_t kNumberSize = 8;

constexpr std::pair<MessageType, const char*> kMessageNames[] = {
    {MessageType::kHello, "hello"},
    {MessageType::kOutput, "output"},
    {MessageType::kMetric, "metric"},
    {MessageType::kExited, "exited"},
    {MessageType::kBeat, "beat"},
    {MessageType::kFinished, "finished"},
    {MessageType::kLoaded, "loaded"},
    {MessageType::kReady, "ready"},
    {MessageType::kNamed, "named"},
    {MessageType::kUnable, "unable"},
    {MessageType::kWelcome, "welcome"},
    {MessageType::kRefused, "refused"},
    {MessageType::kStart, "start"},
    {MessageType::kStop, "stop"},
    {MessageType::kAlive, "alive"},
    {MessageType::kFolder, "folder"},
    {MessageType::kNames, "names"},
    {MessageType::kExec, "exec"},
    {MessageType::kExecOutput, "exec output"},
    {MessageType::kExecExited, "exec exited"},
    {MessageType::kExecCancel, "exec cancel"},
};

template <typename Message>
std::string encodeJson(const Message& message) {
  // Programs print, and people write, bytes that are no text: they are replaced, not refused.
  return nlohmann::json(message).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string messageName(std::uint8_t type) {
  for (const auto& [known, name] : kMessageNames) {
    if (raw(known) == type) return name;
  }
  return "a message of an unknown kind";
}

std::string encode(const Hello& message) { return encodeJson(message); }
std::string encode(const Welcome& message) { return encodeJson(message); }
std::string encode(const Refused& message) { return encodeJson(message); }
std::string encode(const Unable& message) { return encodeJson(message); }
std::string encode(const Names& message) { return encodeJson(message); }
std::string encode(const Start& message) { return encodeJson(message); }
std::string encode(const Exited& message) { return encodeJson(message); }
std::string encode(const Beat& message) { return encodeJson(message); }
std::string encode(const Stop& message) { return encodeJson(message); }
std::string encode(const Exec& message) { return encodeJson(message); }
std::string encode(const ExecExited& message) { return encodeJson(message); }
std::string encode(const ExecCancel& message) { return encodeJson(message); }

template <typename Message>
Result<Message> decode(std::string_view payload) {
  try {
    return nlohmann::json::parse(payload).get<Message>();
  } catch (const nlohmann::json::exception& error) {
    return Error(Code::kInvalid, std::string("not a message: ") + error.what());
  }
}

template Result<Hello> decode(std::string_view);
template Result<Welcome> decode(std::string_view);
template Result<Refused> decode(std::string_view);
template Result<Unable> decode(std::string_view);
template Result<Names> decode(std::string_view);
template Result<Start> decode(std::string_view);
template Result<Exited> decode(std::string_view);
template Result<Beat> decode(std::string_view);
template Result<Stop> decode(std::string_view);
template Result<Exec> decode(std::string_view);
template Result<ExecExited> decode(std::string_view);
template Result<ExecCancel> decode(std::string_view);

std::string encodeChunk(std::int64_t number, std::string_view bytes) {
  std::string payload;
  payload.reserve(kNumberSize + bytes.size());
  for (unsigned shift = 0; shift < 64; shift += 8) {
    payload += static_cast<char>((static_cast<std::uint64_t>(number) >> shift) & 0xFFu);
  }
  payload += bytes;
  return payload;
}

Result<Chunk> decodeChunk(std::string_view payload) {
  if (payload.size() < kNumberSize) return Error(Code::kInvalid, "a chunk of output cut short");
  std::uint64_t number = 0;
  for (unsigned i = 0; i < kNumberSize; ++i) {
    number |= static_cast<std::uint64_t>(static_cast<unsigned char>(payload[i])) << (8 * i);
  }
  return Chunk{static_cast<std::int64_t>(number), payload.substr(kNumberSize)};
}

}  // namespace dure::protocol

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/process.h"
#include "base/result.h"
#include "net/frame.h"

// What agents and the coordinator say to each other: the one definition of every message, used by
// both ends. A message is one frame; its type is the frame's, its payload is JSON, or for bytes of
// a program's output a number and the bytes as they are.
namespace dure::protocol {

// Raised whenever a message changes its meaning; both ends must have the same.
inline constexpr int kProtocolVersion = 4;

enum class MessageType : std::uint8_t {
  // agent to coordinator
  kHello = 1,
  kOutput = 3,
  kMetric = 4,
  kExited = 5,
  kBeat = 6,
  kFinished = 7,
  kLoaded = 8,
  kReady = 9,
  kNamed = 10,
  kUnable = 11,
  // coordinator to agent
  kWelcome = 20,
  kRefused = 21,
  kStart = 22,
  kStop = 23,
  kAlive = 24,
  kFolder = 25,
  kNames = 26,
  // a command in another task: client to its agent, agent to coordinator, coordinator to the other
  // agent; then back the same way
  kExec = 40,
  kExecOutput = 41,
  kExecExited = 42,
  // the client went away: the command is to end
  kExecCancel = 43,
};

// For the log: "hello", "start".
std::string messageName(std::uint8_t type);

// As it stands in a frame.
inline std::uint8_t raw(MessageType type) { return static_cast<std::uint8_t>(type); }

// The first word of an agent. Everything after it belongs to this task of this generation.
struct Hello {
  int version = kProtocolVersion;
  std::string secret;
  std::string run;
  int generation = 0;
  std::string task;
  std::string host;
  int pid = 0;
};

// The agent is one of the gang. It waits for Start.
struct Welcome {
  int heartbeat_ms = 1000;   // between two beats
  std::int64_t stop_ms = 0;  // from SIGTERM to SIGKILL when the agent itself gets a SIGTERM
  // The lease: the coordinator answers every heartbeat by kAlive; an agent that hears nothing for
  // so long ends its task, since by then the coordinator takes it for lost. 0: no lease.
  std::int64_t lease_ms = 0;
  // The folder that the programs start in follows in kFolder messages, packed, so many bytes of it
  // with this hash; the agent says kReady when it has it. 0: nothing follows.
  std::int64_t folder_bytes = 0;
  std::string folder_hash;
};

struct Refused {
  std::string reason;
};

// The agent cannot run its programs, whatever they are, and ends.
struct Unable {
  std::string reason;
};

// The gang is complete, and its programs will reach each other by these names. The agent says
// kNamed when DNS knows all of them, or when it has had enough.
struct Names {
  std::vector<std::string> names;
  std::int64_t patience_ms = 0;
};

// These are the processes of the task; let them begin.
struct Start {
  struct Process {
    std::vector<std::string> argv;
    std::map<std::string, std::string> env;
    std::int64_t delay_ms = 0;  // before it is started
    std::string label;          // before each line, where the agent prints what the process does
  };
  std::string workdir;
  std::map<std::string, std::string> files;  // to be written into the task's directory
  std::map<std::string, std::string> env;    // for commands that other tasks start here
  std::vector<Process> processes;
  bool tell_loaded = false;  // the agent is to say kLoaded when the processes have come to rest
};

struct Exited {
  int process = 0;
  ExitStatus status;
  std::int64_t at_ms = 0;  // wall clock of its end, or of its final output if that came just before
  std::int64_t ran_ms = 0;  // how long it ran
  bool asked = false;       // somebody had asked it to stop
  std::string error;        // it could not even be started
  std::string tail;         // the last lines of its standard output
  std::string errors;       // the first and the last lines of its standard error
  bool reported = false;    // it had reported progress
};

struct Beat {
  std::vector<std::int64_t> silent_ms;  // per process: since it last printed or reported
};

// Ends the task's processes: SIGTERM, after `grace_ms` SIGKILL. A second Stop may shorten it.
struct Stop {
  std::int64_t grace_ms = 0;
};

struct Exec {
  std::int64_t id = 0;
  std::string task;  // where it is to run
  std::vector<std::string> argv;
};

struct ExecExited {
  std::int64_t id = 0;
  ExitStatus status;
  std::string error;
};

struct ExecCancel {
  std::int64_t id = 0;
};

std::string encode(const Hello& message);
std::string encode(const Welcome& message);
std::string encode(const Refused& message);
std::string encode(const Unable& message);
std::string encode(const Names& message);
std::string encode(const Start& message);
std::string encode(const Exited& message);
std::string encode(const Beat& message);
std::string encode(const Stop& message);
std::string encode(const Exec& message);
std::string encode(const ExecExited& message);
std::string encode(const ExecCancel& message);

// Invalid for a payload that is not such a message, whatever it is.
template <typename Message>
Result<Message> decode(std::string_view payload);

// kOutput, kMetric and kExecOutput: eight bytes for the number (of the process; or of the command,
// times two, plus one for standard error) and then the bytes.
struct Chunk {
  std::int64_t number = 0;
  std::string_view bytes;
};
std::string encodeChunk(std::int64_t number, std::string_view bytes);
Result<Chunk> decodeChunk(std::string_view payload);

}  // namespace dure::protocol

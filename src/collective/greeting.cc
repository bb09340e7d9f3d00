#include "collective/greeting.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace dure::collective {
namespace {

struct Answer {
  std::uint32_t magic = kGreeting;
  char refused[256] = {};
};

}  // namespace

void sendAnswer(int socket, const std::string& refused, int memory) {
  Answer answer;
  const std::size_t length = std::min(refused.size(), sizeof answer.refused - 1);
  std::memcpy(answer.refused, refused.data(), length);
  iovec data{.iov_base = &answer, .iov_len = sizeof answer};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (refused.empty()) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof memory);
    std::memcpy(CMSG_DATA(header), &memory, sizeof memory);
  }
  sendmsg(socket, &message, MSG_NOSIGNAL);
}

Result<Fd> receiveAnswer(int socket) {
  Answer answer;
  iovec data{.iov_base = &answer, .iov_len = sizeof answer};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  Fd memory;
  const cmsghdr* header = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(sizeof(int))) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    memory.reset(fd);
  }
  if (got <= 0) return Error(Code::kUnavailable, "it is gone");
  if (got != static_cast<ssize_t>(sizeof answer) || answer.magic != kGreeting) {
    return Error(Code::kInvalid, "it is of another version");
  }
  answer.refused[sizeof answer.refused - 1] = '\0';
  if (answer.refused[0] != '\0') return Error(Code::kInvalid, answer.refused);
  if (!memory) return Error(Code::kInvalid, "it sent no memory");
  return memory;
}

}  // namespace dure::collective

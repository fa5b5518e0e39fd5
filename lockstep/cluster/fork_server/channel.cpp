// Messages over a SOCK_SEQPACKET pair: NUL-separated words, with descriptors as ancillary data (SCM_RIGHTS).
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/cluster/fork_server/channel.h>

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

namespace lockstep::cluster {
namespace {

constexpr std::size_t kMostDescriptors = 4;
/// Less than a local socket takes in one piece by default; a rank's variables are some hundred bytes.
constexpr std::size_t kLongest = 128 << 10;

struct alignas(cmsghdr) Control {
  std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> bytes{};
};

[[noreturn]] void fail_channel(const char* what) {
  fail(ErrorKind::io, "launch", "cannot {} the process that forks ranks: {}", what, std::strerror(errno));
}

std::string joined(const std::string& kind, const std::vector<std::string>& words) {
  std::string text = kind;
  for (const auto& word : words) (text += '\0') += word;
  return text;
}

Message split(std::string_view text) {
  Message message;
  const auto take = [&] {
    const auto end = text.find('\0');
    std::string word(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    return word;
  };
  const auto count = std::count(text.begin(), text.end(), '\0');
  message.kind = take();
  for (std::ptrdiff_t i = 0; i < count; ++i) message.words.push_back(take());
  return message;
}

void take_descriptors(msghdr& header, std::vector<UniqueFd>& descriptors) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    std::array<int, kMostDescriptors> fds{};
    const std::size_t size = std::min(part->cmsg_len - CMSG_LEN(0), sizeof fds);
    std::memcpy(fds.data(), CMSG_DATA(part), size);
    for (std::size_t i = 0; i < size / sizeof(int); ++i) descriptors.emplace_back(fds[i]);
  }
}

}  // namespace

void send_message(int socket, const std::string& kind, const std::vector<std::string>& words,
                  std::initializer_list<int> descriptors) {
  std::string text = joined(kind, words);
  if (text.size() > kLongest || descriptors.size() > kMostDescriptors) {
    fail(ErrorKind::io, "launch", "a message of {} bytes is too long for the process that forks ranks (at most {})",
         text.size(), kLongest);
  }
  iovec part{text.data(), text.size()};
  Control control;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (descriptors.size() > 0) {
    header.msg_control = control.bytes.data();
    header.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), descriptors.begin(), descriptors.size() * sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) fail_channel("send to");
}

std::optional<Message> receive_message(int socket) {
  std::string text(kLongest, '\0');
  iovec part{text.data(), text.size()};
  Control control;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes.data();
  header.msg_controllen = control.bytes.size();
  ssize_t size = 0;
  do {
    size = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0 && errno != ECONNRESET) fail_channel("receive from");
  if (size <= 0) return std::nullopt;
  Message message = split(std::string_view(text.data(), static_cast<std::size_t>(size)));
  take_descriptors(header, message.descriptors);
  return message;
}

Channel make_channel() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) fail_channel("make a socket to");
  UniqueFd mine(ends[0]);
  UniqueFd theirs(ends[1]);
  return {above_standard_streams(std::move(mine)), above_standard_streams(std::move(theirs))};
}

DescriptorCount count_descriptors() {
  DescriptorCount count;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), &::closedir);
  if (!folder) fail_channel("count the descriptors for");
  while (const dirent* entry = ::readdir(folder.get())) {
    const auto fd = parse_integer(entry->d_name);
    if (!fd || *fd <= STDERR_FILENO || *fd == ::dirfd(folder.get())) continue;
    ++count.open;
    if ((::fcntl(static_cast<int>(*fd), F_GETFD) & FD_CLOEXEC) == 0) ++count.kept_on_exec;
  }
  return count;
}

}  // namespace lockstep::cluster

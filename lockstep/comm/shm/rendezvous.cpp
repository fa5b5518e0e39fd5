// The handshake of a shared-memory group. Order: hello of each rank with its lifeline, welcome with memory files and
// all lifelines, ready of each rank, and a final message of rank 0; or a refusal to all.
#include <lockstep/base/error.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/comm/shm/rendezvous.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sched.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace lockstep::shm {
namespace {

constexpr std::size_t kSecretLength = 32;
constexpr std::size_t kCpuWords = sizeof(cpu_set_t) / sizeof(std::uint64_t);
constexpr std::chrono::seconds kHelloLimit{10};  // between the connection and the hello
constexpr std::chrono::milliseconds kLook{50};   // between two checks whether the missing ranks are lost

using CpuWords = std::array<std::uint64_t, kCpuWords>;

// From a rank to rank 0, with its lifeline.
struct RankHello {
  std::array<char, kSecretLength> secret;
  std::int32_t rank;
  std::int32_t ranks;
  CpuWords cpus;
};

// From rank 0 to a rank, with the segment and the arena; packets with all lifelines follow. Or, without descriptors,
// the reason why the group cannot be made.
struct Welcome {
  Geometry geometry;
  std::int32_t cpus;
  std::array<char, 512> refusal;  // ends with 0; empty: welcome
};

std::string random_hex() {
  std::array<unsigned char, kSecretLength / 2> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    fail(ErrorKind::io, "shm", "getrandom gave no random bytes");
  }
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <typename T>
std::optional<T> parse(const Packet& packet) {
  if (packet.bytes.size() != sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, packet.bytes.data(), sizeof(T));
  return value;
}

struct Lifeline {
  UniqueFd watch;  // for the other ranks
  UniqueFd held;
};

// A pidfd where the kernel provides one (Linux 5.3; some containers forbid it); else a pipe whose other end closes when
// this process and all processes that it forked without exec have ended.
Lifeline make_lifeline() {
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (pidfd) return {std::move(pidfd), UniqueFd()};
  Pipe pipe = make_pipe();
  return {std::move(pipe.read_end), std::move(pipe.write_end)};
}

CpuWords usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CpuWords words{};
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) {
    words[0] = 1;  // more processors than a cpu_set_t holds, or a sandbox: count one processor
    return words;
  }
  std::memcpy(words.data(), &set, sizeof(set));
  return words;
}

int count_bits(const std::vector<std::uint64_t>& words) {
  int count = 0;
  for (const auto word : words) count += std::popcount(word);
  return std::max(count, 1);
}

void unite(std::vector<std::uint64_t>& all, const CpuWords& more) {
  all.resize(kCpuWords);
  for (std::size_t i = 0; i < kCpuWords; ++i) all[i] |= more[i];
}

void check(const Geometry& geometry) {
  if (geometry.ranks > kMaxRanks) {
    fail(ErrorKind::unsupported, "shm", "a group has at most {} ranks, not {}; use backend tcp", kMaxRanks,
         geometry.ranks);
  }
  if (geometry.chunk_bytes < static_cast<std::int64_t>(kLine) * geometry.ranks) {
    fail(ErrorKind::invalid_argument, "shm", "chunk_bytes {} is below {} for each of {} ranks", geometry.chunk_bytes,
         kLine, geometry.ranks);
  }
}

}  // namespace

Host::Host(const Geometry& geometry)
    : geometry_(geometry), address_("lockstep-" + random_hex()), secret_(random_hex()) {
  check(geometry);
  listener_ = listen_at(address_, geometry.ranks);
  unite(cpus_, usable_cpus());
}

std::string Host::invitation() const { return address_ + " " + secret_; }

// A connection that is from none of the expected ranks is dropped without a reply.
void Host::admit(std::vector<Guest>& guests, UniqueFd socket, Deadline deadline) {
  const auto limit = std::min(deadline, std::chrono::steady_clock::now() + kHelloLimit);
  auto packet = receive_packet(socket.get(), limit);
  const auto hello = packet ? parse<RankHello>(*packet) : std::nullopt;
  if (!hello || packet->fds.size() != 1 || std::string_view(hello->secret.data(), kSecretLength) != secret_) return;
  if (hello->ranks != geometry_.ranks || hello->rank < 1 || hello->rank >= geometry_.ranks) return;
  Guest& guest = guests[static_cast<std::size_t>(hello->rank)];
  if (guest.socket) return;
  guest = {std::move(socket), std::move(packet->fds.front())};
  unite(cpus_, hello->cpus);
}

std::vector<int> Host::absent_from(const std::vector<Guest>& guests) {
  std::vector<int> absent;
  for (std::size_t rank = 1; rank < guests.size(); ++rank) {
    if (!guests[rank].socket) absent.push_back(static_cast<int>(rank));
  }
  return absent;
}

void Host::refuse(const std::vector<Guest>& guests, const std::string& reason) noexcept {
  Welcome refusal{};
  std::memcpy(refusal.refusal.data(), reason.data(), std::min(reason.size(), refusal.refusal.size() - 1));
  for (const Guest& guest : guests) {
    if (!guest.socket) continue;
    try {
      send_packet(guest.socket.get(), bytes_of(refusal), {});
    } catch (const Error&) {
      // The rank has ended and needs no reply.
    }
  }
}

void Host::await_guests(std::vector<Guest>& guests, Deadline deadline, const WhileWaiting& while_waiting) {
  for (std::vector<int> absent = absent_from(guests); !absent.empty(); absent = absent_from(guests)) {
    const auto now = std::chrono::steady_clock::now();
    auto socket = accept_peer(listener_.get(), std::min(deadline, now + kLook), other_user_);
    if (socket) {
      admit(guests, std::move(*socket), deadline);
    } else if (now >= deadline) {
      std::string reason = fmt::format("{} did not connect in time", names_of_ranks(absent));
      if (other_user_) {
        reason += fmt::format("; a process of user {} was refused, as all ranks of a host must be of one user ({})",
                              *other_user_, ::geteuid());
      }
      refuse(guests, reason);
      fail(ErrorKind::timeout, "shm", "{}", reason);
    } else if (while_waiting) {
      while_waiting(absent);
    }
  }
}

// All or none: no rank starts before all ranks have mapped the memory.
void Host::await_ready(const std::vector<Guest>& guests, Deadline deadline) {
  for (std::size_t rank = 1; rank < guests.size(); ++rank) {
    const auto ready = receive_packet(guests[rank].socket.get(), deadline);
    if (ready && !ready->bytes.empty()) continue;
    const std::string reason =
        fmt::format("rank {} {} while the group was made", rank, ready ? "was lost" : "did not answer");
    refuse(guests, reason);
    fail(ready ? ErrorKind::peer_lost : ErrorKind::timeout, "shm", "{}", reason);
  }
}

Gathering Host::gather(Deadline deadline, const WhileWaiting& while_waiting) {
  const auto ranks = static_cast<std::size_t>(geometry_.ranks);
  std::vector<Guest> guests(ranks);
  await_guests(guests, deadline, while_waiting);

  Gathering rendezvous;
  rendezvous.geometry = geometry_;
  rendezvous.cpus = count_bits(cpus_);
  const UniqueFd memory = make_memory_file("lockstep", Segment::bytes(geometry_));
  rendezvous.segment = Mapping(memory.get(), 0, Segment::bytes(geometry_));
  rendezvous.arena = make_memory_file("lockstep-blocks", 0);
  Lifeline own = make_lifeline();
  rendezvous.held = std::move(own.held);

  const Welcome welcome{geometry_, rendezvous.cpus, {}};
  const std::array<int, 2> files = {memory.get(), rendezvous.arena.get()};
  std::vector<int> lifelines = {own.watch.get()};
  for (std::size_t rank = 1; rank < ranks; ++rank) lifelines.push_back(guests[rank].lifeline.get());
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    const int socket = guests[rank].socket.get();
    send_packet(socket, bytes_of(welcome), files);
    for (std::size_t first = 0; first < ranks; first += kMaxPacketFds) {
      send_packet(socket, bytes_of(welcome),
                  std::span(lifelines).subspan(first, std::min(kMaxPacketFds, ranks - first)));
    }
  }
  await_ready(guests, deadline);
  for (std::size_t rank = 1; rank < ranks; ++rank) send_packet(guests[rank].socket.get(), bytes_of(welcome), {});
  for (Guest& guest : guests) rendezvous.lifelines.push_back(std::move(guest.lifeline));
  return rendezvous;
}

namespace {

// The next packet of rank 0, which must be a welcome.
Packet expect_welcome(int socket, Deadline deadline, Welcome& welcome) {
  auto packet = receive_packet(socket, deadline);
  if (!packet) fail(ErrorKind::timeout, "shm", "rank 0 did not answer in time");
  const auto parsed = parse<Welcome>(*packet);
  if (!parsed) fail(ErrorKind::peer_lost, "shm", "rank 0 was lost while the group was made");
  welcome = *parsed;
  if (welcome.refusal.front() != 0) fail(ErrorKind::timeout, "shm", "{}", welcome.refusal.data());
  return std::move(*packet);
}

}  // namespace

Gathering join(const std::string& invitation, int rank, int ranks, Deadline deadline) {
  const auto space = invitation.find(' ');
  if (space == std::string::npos || invitation.size() != space + 1 + kSecretLength) {
    fail(ErrorKind::invalid_argument, "shm", "\"{}\" is not an invitation", invitation);
  }
  Gathering rendezvous;
  Lifeline own = make_lifeline();
  rendezvous.held = std::move(own.held);
  RankHello hello{{}, rank, ranks, usable_cpus()};
  std::memcpy(hello.secret.data(), invitation.data() + space + 1, kSecretLength);

  const UniqueFd socket = connect_to(invitation.substr(0, space));
  const std::array<int, 1> lifeline = {own.watch.get()};
  send_packet(socket.get(), bytes_of(hello), lifeline);

  Welcome welcome{};
  Packet files = expect_welcome(socket.get(), deadline, welcome);
  if (files.fds.size() != 2) fail(ErrorKind::peer_lost, "shm", "rank 0 sent no shared memory");
  rendezvous.geometry = welcome.geometry;
  rendezvous.cpus = welcome.cpus;
  rendezvous.segment = Mapping(files.fds[0].get(), 0, Segment::bytes(welcome.geometry));
  rendezvous.arena = std::move(files.fds[1]);
  while (rendezvous.lifelines.size() < static_cast<std::size_t>(ranks)) {
    Packet packet = expect_welcome(socket.get(), deadline, welcome);
    if (packet.fds.empty()) fail(ErrorKind::peer_lost, "shm", "rank 0 sent too few file descriptors");
    for (UniqueFd& fd : packet.fds) rendezvous.lifelines.push_back(std::move(fd));
  }
  rendezvous.lifelines[static_cast<std::size_t>(rank)].reset();
  send_packet(socket.get(), bytes_of(hello), {});
  expect_welcome(socket.get(), deadline, welcome);
  return rendezvous;
}

}  // namespace lockstep::shm

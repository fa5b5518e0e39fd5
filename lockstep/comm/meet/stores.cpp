// c10d's store interface over the client of Lockstep's own store, TCPStore clients that connect in time, and TCPStore
// on a given socket: as masterListenFd where c10d has that, else by dup3 over the store's own listener; and the choice
// among the ways to open a store or to join one.
#include <lockstep/base/error.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/threads.h>
#include <lockstep/comm/meet/addresses.h>
#include <lockstep/comm/meet/stores.h>
#include <lockstep/compat/libtorch.h>
#include <lockstep/world/host_addresses.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace lockstep::detail {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using store::MessageReader;
using store::MessageWriter;
using store::Operation;

std::string_view view_of(const std::vector<std::uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

MessageWriter key_alone(const std::string& key) { return MessageWriter().text(key); }

std::uint64_t number_of(const std::string& result) { return MessageReader(result).number(); }
std::vector<std::uint8_t> value_in(const std::string& result) {
  const auto text = MessageReader(result).text();
  return {text.begin(), text.end()};
}

}  // namespace

OwnStore::OwnStore(StorePlace place, milliseconds timeout, std::shared_ptr<const store::Server> server)
    : Store(timeout),
      place_(std::move(place)),
      server_(std::move(server)),
      client_(place_.host, place_.port, place_.credentials, Clock::now() + timeout) {}

std::string OwnStore::ask(Operation operation, const MessageWriter& fields, milliseconds timeout) {
  const auto deadline = timeout == kNoTimeout ? std::nullopt : std::optional(Clock::now() + timeout);
  return client_.ask(operation, fields, deadline);
}

std::string OwnStore::ask(Operation operation, const MessageWriter& fields) {
  return ask(operation, fields, getTimeout());
}

void OwnStore::set(const std::string& key, const std::vector<std::uint8_t>& value) {
  ask(Operation::set, key_alone(key).text(view_of(value)));
}

std::vector<std::uint8_t> OwnStore::compareSet(const std::string& key, const std::vector<std::uint8_t>& expected,
                                               const std::vector<std::uint8_t>& desired) {
  return value_in(ask(Operation::compare_set, key_alone(key).text(view_of(expected)).text(view_of(desired))));
}

std::vector<std::uint8_t> OwnStore::get(const std::string& key) {
  return value_in(ask(Operation::get, key_alone(key)));
}

std::int64_t OwnStore::add(const std::string& key, std::int64_t value) {
  const auto sum = ask(Operation::add, key_alone(key).number(static_cast<std::uint64_t>(value)));
  return static_cast<std::int64_t>(number_of(sum));
}

bool OwnStore::deleteKey(const std::string& key) { return number_of(ask(Operation::remove, key_alone(key))) != 0; }

bool OwnStore::check(const std::vector<std::string>& keys) {
  return number_of(ask(Operation::check, MessageWriter().keys(keys))) != 0;
}

std::int64_t OwnStore::getNumKeys() { return static_cast<std::int64_t>(number_of(ask(Operation::count, {}))); }

void OwnStore::wait(const std::vector<std::string>& keys) { wait(keys, getTimeout()); }

void OwnStore::wait(const std::vector<std::string>& keys, const milliseconds& timeout) {
  ask(Operation::wait, MessageWriter().keys(keys), timeout);
}

c10::intrusive_ptr<c10d::Store> OwnStore::clone() {
  return c10::make_intrusive<OwnStore>(place_, getTimeout(), server_);
}

OwnStorePtr join_own_store(const StorePlace& place, milliseconds timeout) {
  return c10::make_intrusive<OwnStore>(place, timeout);
}

OwnStorePtr host_own_store(StorePlace place, std::vector<std::string> addresses, milliseconds timeout) {
  store::StoreServerOptions options;
  options.addresses = std::move(addresses);
  options.port = place.port;
  options.secret = place.credentials.secret;
  options.tls = place.credentials.tls;
  const auto server = std::make_shared<const store::Server>(std::move(options));
  place.port = server->port();
  return c10::make_intrusive<OwnStore>(std::move(place), timeout, server);
}

namespace {

// The listening process may not be a store, and may never reply. A thread that is left behind ends with its connection.
StorePtr make_client_in_time(const std::string& host, const c10d::TCPStoreOptions& options) {
  const auto limit = options.timeout + std::chrono::seconds(2);  // c10d reports more
  const auto store =
      call_within(limit, [host, options]() -> StorePtr { return c10::make_intrusive<c10d::TCPStore>(host, options); });
  if (!store) {
    throw std::runtime_error(
        "the process that listens there sends nothing: it is not a store, or the process that holds the store (rank 0 "
        "or a launcher) hangs");
  }
  return *store;
}

}  // namespace

StorePtr make_tcp_store(const std::string& host, std::uint16_t port, bool is_server,
                        std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = is_server;
  options.waitWorkers = false;
  options.timeout = std::chrono::ceil<std::chrono::seconds>(timeout);  // c10d connects with whole seconds, rounded down
  compat::without_libuv(options);
  if (compat::kStoreWaitsWithoutDeadline && !is_server) return make_client_in_time(host, options);
  return c10::make_intrusive<c10d::TCPStore>(host, options);
}

namespace {

using TcpStorePtr = c10::intrusive_ptr<c10d::TCPStore>;

std::uint16_t port_of_socket(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  return ntohs(address.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                                            : reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

/// The address at which this host reaches a listening socket.
std::string host_of_socket(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return "127.0.0.1";
  const auto text = address_text(reinterpret_cast<const sockaddr&>(address));
  return text == "::" || text == "0.0.0.0" ? "127.0.0.1" : text;
}

bool listens(int socket) {
  int yes = 0;
  socklen_t length = sizeof yes;
  return ::getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &yes, &length) == 0 && yes != 0;
}

int find_listener(std::uint16_t port) {
  constexpr int kMostDescriptors = 1024;
  for (int fd = 0; fd < kMostDescriptors; ++fd) {
    if (listens(fd) && port_of_socket(fd) == port) return fd;
  }
  throw std::runtime_error("c10d's store does not listen");
}

/// A query and its reply. Afterwards the server has begun another pass over its sockets.
void query(c10d::TCPStore& store) {
  store.add("lockstep", 0);
  store.deleteKey("lockstep");
}

/// Makes the server of `store` accept from `listener` instead of its own socket, which is closed. For libtorch 1.13.
[[maybe_unused]] void move_to(int listener, c10d::TCPStore& store, const c10d::TCPStoreOptions& client) {
  {
    // Connections are accepted in order: when this one has a reply, those of `store` itself have been accepted.
    c10d::TCPStore last("127.0.0.1", client);
    query(last);
  }
  if (::dup3(listener, find_listener(store.getPort()), O_CLOEXEC) < 0) {
    throw std::runtime_error(std::generic_category().message(errno));
  }
  // A poll that began before dup3 waits on the old socket, and a connection to the new one does not end it.
  query(store);
}

/// A template over the type of the options, so that a member which they lack is not compiled.
template <typename Options>
TcpStorePtr serve_on(int listener, Options options) {
  if constexpr (requires { options.masterListenFd; }) {
    options.port = port_of_socket(listener);
    options.masterListenFd = listener;
    return c10::make_intrusive<c10d::TCPStore>(host_of_socket(listener), options);
  } else {
    auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
    auto client = options;
    client.isServer = false;
    client.port = store->getPort();
    move_to(listener, *store, client);
    return store;
  }
}

}  // namespace

StorePtr serve_tcp_store(int listener) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  options.timeout = std::chrono::seconds(60);
  compat::without_libuv(options);
  return serve_on(listener, options);
}

namespace {

using std::chrono::milliseconds;

OpenedStore open_tcp(const World& world, milliseconds timeout) {
  OpenedStore opened;
  opened.host = world.master_addr;
  opened.port = world.master_port;
  if (world.rank == 0 && !world.store_is_external) {
    host_rendezvous(opened, world, timeout);
  } else {
    opened.store = reach_tcp_store(world, opened.host, opened.port, timeout);
  }
  return opened;
}

OpenedStore open_through_mpi(const World& world, milliseconds timeout) {
  OpenedStore opened;
  mpi::MpiEndpoint endpoint;
  mpi::require_same(world);
  const bool one_host = mpi::all_on_one_host(timeout);
  if (world.rank == 0) {
    const auto named = named_interface_address(current_environment());
    opened.host = one_host ? "127.0.0.1" : named.value_or(outward_address());
    host_rendezvous(opened, world, timeout);
    endpoint = {opened.host, opened.port};
  }
  endpoint = mpi::broadcast_from_rank_0(endpoint, timeout);
  opened.host = endpoint.host;
  opened.port = endpoint.port;
  if (!opened.held_here) opened.store = reach_tcp_store(world, endpoint.host, endpoint.port, timeout);
  return opened;
}

// Rank 0 takes a free port and publishes it, so no other process can take the port in between.
OpenedStore open_through_scheduler(const World& world, milliseconds timeout, MemberSession& session) {
  OpenedStore opened;
  if (world.rank == 0) {
    opened.host = named_interface_address(current_environment()).value_or(session.own_address());
    host_rendezvous(opened, world, timeout);
    session.publish_store(opened.host, opened.port);
    return opened;
  }
  const auto there = session.await_store(std::chrono::steady_clock::now() + timeout);
  opened.host = there.host;
  opened.port = there.port;
  opened.store = reach_tcp_store(world, opened.host, opened.port, timeout, [&session] { session.throw_if_lost(); });
  return opened;
}

// A file, or no other rank: the store has no keys of an earlier rendezvous.
OpenedStore with_its_keys(OpenedStore opened, const World& world, milliseconds timeout) {
  opened.store = keys_of_only_rendezvous(world, opened.store, timeout);
  return opened;
}

OpenedStore open_any(const World& world, milliseconds timeout, MemberSession* session) {
  switch (world.rendezvous) {
    case Rendezvous::tcp: return open_tcp(world, timeout);
    case Rendezvous::file: return with_its_keys(meet_in_file(world, timeout), world, timeout);
    case Rendezvous::mpi: return open_through_mpi(world, timeout);
    case Rendezvous::scheduler:
      if (session != nullptr) return open_through_scheduler(world, timeout, *session);
      break;
    case Rendezvous::alone: break;
  }
  if (world.size != 1) {
    fail(ErrorKind::invalid_argument, "connect", "a world of {} ranks needs a rendezvous (tcp, file or mpi), not alone",
         world.size);
  }
  OpenedStore alone{c10::make_intrusive<c10d::HashStore>(), true, "this process", "", 0};
  return with_its_keys(std::move(alone), world, timeout);
}

}  // namespace

OpenedStore open_store(const World& world, milliseconds timeout, MemberSession* session) {
  auto opened = open_any(world, timeout, session);
  if (opened.where.empty()) opened.where = host_and_port(opened.host, opened.port);
  return opened;
}

StorePtr visit_store(const World& world, const std::string& host, std::uint16_t port, bool found,
                     milliseconds timeout) {
  if (world.rendezvous == Rendezvous::file) {
    // The number of ranks is not set, so this store does not remove the file.
    return keys_of_only_rendezvous(world, c10::make_intrusive<c10d::FileStore>(world.store_path, -1), timeout);
  }
  return visit_tcp_store(world, host, port, found, timeout);
}

}  // namespace lockstep::detail

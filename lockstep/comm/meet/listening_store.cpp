// TCPStore on a given socket: as masterListenFd where c10d has that, else by dup3 over the store's own listener.
#include <lockstep/comm/meet/listening_store.h>
#include <lockstep/compat/libtorch.h>
#include <lockstep/world/host_addresses.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <string>
#include <system_error>

namespace lockstep::detail {
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

}  // namespace lockstep::detail

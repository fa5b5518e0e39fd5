// A store server inside the launcher, with a random secret, and TLS where LOCKSTEP_ENCRYPT is set.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/secret.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/cluster/lockstep_store_host.h>
#include <lockstep/net/tls_contexts.h>
#include <lockstep/store/server.h>

#include <exception>
#include <utility>

namespace lockstep::cluster {

LockstepStoreHost::LockstepStoreHost(const std::string& host, std::vector<std::string> addresses)
    : address_{"", random_token()} {
  try {
    store::StoreServerOptions options;
    options.addresses = std::move(addresses);
    options.secret = address_.secret;
    options.tls = net::find_peer_tls(current_environment());
    server_ = std::make_unique<store::Server>(std::move(options));
  } catch (const std::exception& error) {
    fail(ErrorKind::io, "launch", "cannot host the rendezvous store of the ranks: {}", error.what());
  }
  address_.place = host_and_port(host, server_->port());
}

LockstepStoreHost::~LockstepStoreHost() = default;

std::uint16_t LockstepStoreHost::port() const { return server_->port(); }

}  // namespace lockstep::cluster

// The choice of the address for Gloo's TCP device: a named interface, loopback on one host, the rendezvous's address.
#include <lockstep/comm/gloo/device.h>

#include <lockstep/base/error.h>
#include <lockstep/comm/gloo/batch_threads.h>
#include <lockstep/comm/meet/addresses.h>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <string>

namespace lockstep::detail::gloo {

std::shared_ptr<::gloo::transport::Device> make_device(const BackendContext& context) {
  std::string address = context.one_host ? "127.0.0.1" : context.bind_address;
  if (const auto named = named_interface_address(current_environment())) address = *named;
  const BatchThreads guard;  // the device's thread inherits it
  try {
    if (address.empty()) return c10d::ProcessGroupGloo::createDefaultDevice();
    return c10d::ProcessGroupGloo::createDeviceForHostname(address);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    fail(ErrorKind::environment, "connect",
         "the gloo backend cannot use the address {} of this host: {}. Name another interface with "
         "LOCKSTEP_SOCKET_IFNAME",
         address.empty() ? "of its name" : address, text.substr(0, text.find('\n')));
  }
}

}  // namespace lockstep::detail::gloo

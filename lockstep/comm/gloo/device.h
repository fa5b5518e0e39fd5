// The network device Gloo binds to.
#pragma once

#include <lockstep/comm/backend.h>

#include <gloo/transport/device.h>

#include <memory>

namespace lockstep::detail::gloo {

/// Loopback when all ranks share a host, else the address that reaches the others, else the address of this host's
/// name. An interface named in the environment comes before all of these. Error(environment) when it cannot be bound.
std::shared_ptr<::gloo::transport::Device> make_device(const BackendContext& context);

}  // namespace lockstep::detail::gloo

// The network device to which Gloo binds.
#pragma once

#include <lockstep/comm/backend.h>

#include <gloo/transport/device.h>

#include <memory>

namespace lockstep::detail::gloo {

/// Loopback when all ranks share a host, else the address that reaches the other ranks, else the address of this host's
/// name. An interface named in the environment has precedence over all of these. Error(environment) when the address
/// cannot be bound.
std::shared_ptr<::gloo::transport::Device> make_device(const BackendContext& context);

}  // namespace lockstep::detail::gloo

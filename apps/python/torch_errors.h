// The errors of Lockstep as those that torch.distributed raises.
#pragma once

#include <exception>

namespace lockstep::python {

/// A lost peer, a timeout or a failed connection becomes torch.distributed.DistBackendError, a wrong argument
/// ValueError, and the other kinds RuntimeError. Exceptions that are not Lockstep's remain as they are.
std::exception_ptr as_torch_error(std::exception_ptr error);

}  // namespace lockstep::python

// From the kinds of lockstep::Error to exceptions that PyTorch's bindings translate.
#include <apps/python/torch_errors.h>

#include <lockstep/base/error.h>

#include <c10/util/Exception.h>

#include <string>
#include <utility>

namespace lockstep::python {
namespace {

template <typename Exception>
std::exception_ptr make(const std::string& text) {
  return std::make_exception_ptr(Exception({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, text));
}

}  // namespace

std::exception_ptr as_torch_error(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& seen) {
    const std::string text = std::string("lockstep: ") + seen.what();
    switch (seen.kind()) {
      case ErrorKind::timeout:
      case ErrorKind::peer_lost:
      case ErrorKind::io: return make<c10::DistBackendError>(text);
      case ErrorKind::invalid_argument: return make<c10::ValueError>(text);
      default: return make<c10::Error>(text);
    }
  } catch (...) {
    return error;
  }
}

}  // namespace lockstep::python

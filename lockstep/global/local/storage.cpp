// The local form of operators on a tensor's storage, such as those of torch::save(): an error.
#include <lockstep/base/error.h>
#include <lockstep/global/local/local_call.h>

namespace lockstep::global {

void form_of_storage(LocalCall& call) {
  fail(ErrorKind::unsupported, "global view",
       "{} asks for the memory of a global tensor, which has none of its own: every rank holds a part. To save one, "
       "save "
       "tensor.cpu(), which all ranks call together, or full(tensor)",
       call.op.schema().name());
}

}  // namespace lockstep::global

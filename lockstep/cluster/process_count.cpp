#include <lockstep/base/error.h>
#include <lockstep/base/parse.h>
#include <lockstep/cluster/process_count.h>

#include <limits>

namespace lockstep::cluster {

int parse_process_count(std::string_view text, const Processors& available) {
  if (text == "cpu") return available.cpus;
  if (text == "auto") return available.gpus > 0 ? available.gpus : available.cpus;
  if (text == "gpu") {
    if (available.gpus > 0) return available.gpus;
    fail(ErrorKind::invalid_argument, "nproc_per_node",
         "'gpu' asks for one rank per GPU, and libtorch finds none (CUDA_VISIBLE_DEVICES may hide some); use 'cpu', "
         "'auto' or a number");
  }
  const auto count = parse_integer(text);
  if (!count || *count < 1 || *count > std::numeric_limits<int>::max()) {
    fail(ErrorKind::invalid_argument, "nproc_per_node", "must be a number of at least 1, or cpu, gpu or auto; got '{}'",
         text);
  }
  return static_cast<int>(*count);
}

}  // namespace lockstep::cluster

#include <lockstep/base/error.h>
#include <lockstep/kernels/channels_last.h>
#include <lockstep/kernels/registration.h>

#include <torch/torch.h>

#include <sstream>

namespace lockstep {

void to_channels_last(torch::nn::Module& module) {
  kernels::use_products_for_convolutions();
  for (auto& parameter : module.parameters()) {
    if (parameter.dim() == 4) parameter.set_data(to_channels_last(parameter.data()));
  }
}

at::Tensor to_channels_last(const at::Tensor& pictures) {
  if (pictures.dim() != 4) {
    std::ostringstream sizes;
    sizes << pictures.sizes();
    fail(ErrorKind::invalid_argument, "channels_last",
         "pictures are (pictures, channels, height, width); this tensor is {}", sizes.str());
  }
  // Not contiguous(): it does not change tensors whose memory fits both formats, such as 1x1 kernels, so their strides
  // would still indicate the default format.
  return pictures.to(pictures.options(), /*non_blocking=*/false, /*copy=*/false, at::MemoryFormat::ChannelsLast);
}

}  // namespace lockstep

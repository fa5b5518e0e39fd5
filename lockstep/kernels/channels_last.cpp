#include <lockstep/kernels/channels_last.h>
#include <lockstep/kernels/registration.h>

#include <torch/torch.h>

namespace lockstep {

void to_channels_last(torch::nn::Module& module) {
  kernels::register_kernels();
  for (auto& parameter : module.parameters()) {
    if (parameter.dim() == 4) parameter.set_data(to_channels_last(parameter.data()));
  }
}

at::Tensor to_channels_last(const at::Tensor& pictures) { return pictures.contiguous(at::MemoryFormat::ChannelsLast); }

}  // namespace lockstep

// The functions of batch_norm.h in libtorch's own operators, for tensors that are not on the CPU. They compute on any
// device, without a wait for it.
#pragma once

#include <lockstep/kernels/batch_norm.h>

namespace lockstep::kernels::anywhere {

at::Tensor moments_of(const at::Tensor& input);
at::Tensor joined_moments(const at::Tensor& parts);
BatchStatistics statistics_from(const at::Tensor& moments, double eps);
void update_running(const at::Tensor& running, const at::Tensor& now, double momentum);
at::Tensor normalized(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& mean,
                      const at::Tensor& inverse_deviation);
at::Tensor gradient_sums(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& mean,
                         const at::Tensor& inverse_deviation);
at::Tensor gradient_of_input(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight,
                             const at::Tensor& mean, const at::Tensor& inverse_deviation, const at::Tensor& sums,
                             double values);

}  // namespace lockstep::kernels::anywhere

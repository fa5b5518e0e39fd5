// Checks of the tensors that a program passes to a process group.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>
#include <vector>

namespace lockstep::python {

// All checks throw c10::ValueError naming the operation.

/// The only tensor of a list; today's programs pass one for each call.
const at::Tensor& only(const std::vector<at::Tensor>& tensors, std::string_view op);

/// The only list.
const std::vector<at::Tensor>& only(const std::vector<std::vector<at::Tensor>>& lists, std::string_view op);

/// `tensors` has one tensor for each of `size` ranks.
void require_one_for_each_rank(const std::vector<at::Tensor>& tensors, int size, std::string_view op);

/// All tensors of both lists have one dtype and kind of device, and are dense.
void require_alike(const std::vector<at::Tensor>& first, const std::vector<at::Tensor>& second, std::string_view op);

/// Both lists have one entry for each tensor.
void require_pairs(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs, std::string_view op);

void require_rank(std::int64_t rank, int size, std::string_view op);

}  // namespace lockstep::python

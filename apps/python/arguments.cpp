// Errors that name the operation, the rule and the values.
#include <apps/python/arguments.h>

#include <c10/util/Exception.h>

namespace lockstep::python {

const at::Tensor& only(const std::vector<at::Tensor>& tensors, std::string_view op) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "lockstep: ", op, " takes one tensor for each rank, and got ", tensors.size());
  return tensors.front();
}

const std::vector<at::Tensor>& only(const std::vector<std::vector<at::Tensor>>& lists, std::string_view op) {
  TORCH_CHECK_VALUE(lists.size() == 1, "lockstep: ", op, " takes one list of tensors, and got ", lists.size());
  return lists.front();
}

void require_one_for_each_rank(const std::vector<at::Tensor>& tensors, int size, std::string_view op) {
  TORCH_CHECK_VALUE(tensors.size() == static_cast<std::size_t>(size), "lockstep: ", op,
                    " needs one tensor for each of ", size, " ranks, and got ", tensors.size());
}

void require_alike(const std::vector<at::Tensor>& first, const std::vector<at::Tensor>& second, std::string_view op) {
  const at::Tensor* model = nullptr;
  for (const auto* list : {&first, &second}) {
    for (const auto& tensor : *list) {
      TORCH_CHECK_VALUE(tensor.defined(), "lockstep: ", op, " got an undefined tensor");
      TORCH_CHECK_VALUE(tensor.layout() == at::kStrided, "lockstep: ", op,
                        " needs dense tensors, and got one with layout ", tensor.layout());
      if (model == nullptr) model = &tensor;
      TORCH_CHECK_VALUE(tensor.scalar_type() == model->scalar_type(), "lockstep: ", op,
                        " needs tensors of one dtype, and got ", tensor.scalar_type(), " and ", model->scalar_type());
      TORCH_CHECK_VALUE(tensor.device().type() == model->device().type(), "lockstep: ", op,
                        " needs tensors on one kind of device, and got ", tensor.device(), " and ", model->device());
    }
  }
}

void require_pairs(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs, std::string_view op) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "lockstep: ", op, " needs as many outputs as inputs, and got ",
                    outputs.size(), " and ", inputs.size());
}

void require_rank(std::int64_t rank, int size, std::string_view op) {
  TORCH_CHECK_VALUE(rank >= 0 && rank < size, "lockstep: ", op, " got rank ", rank,
                    ", which is not in the group; its ranks are 0..", size - 1);
}

}  // namespace lockstep::python

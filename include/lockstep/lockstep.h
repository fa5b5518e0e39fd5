// All public headers except those that include headers of libtorch (global/factories.h): ranks (world), groups and
// collectives (comm), data parallel training (mirrored), tensors that many ranks hold together (global), automatic
// layout (plan), the parts of a training run (data, models, train), and processes (cluster).
#pragma once

#include <lockstep/base/config_node.h>
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/cluster/report_failure.h>
#include <lockstep/cluster/spawn.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>
#include <lockstep/comm/progress.h>
#include <lockstep/comm/rejoin.h>
#include <lockstep/comm/work.h>
#include <lockstep/data/aligned.h>
#include <lockstep/data/batch.h>
#include <lockstep/data/dataset.h>
#include <lockstep/data/loader.h>
#include <lockstep/data/pipeline.h>
#include <lockstep/data/sampler.h>
#include <lockstep/data/transform_spec.h>
#include <lockstep/global/distribute_module.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/gradient_reduction.h>
#include <lockstep/global/mesh.h>
#include <lockstep/global/module_plan.h>
#include <lockstep/global/placement.h>
#include <lockstep/kernels/channels_last.h>
#include <lockstep/kernels/threads.h>
#include <lockstep/mirrored/data_parallel.h>
#include <lockstep/mirrored/parameter_shards.h>
#include <lockstep/mirrored/sharded_optimizer.h>
#include <lockstep/models/registry.h>
#include <lockstep/plan/auto_parallel.h>
#include <lockstep/train/config.h>
#include <lockstep/train/evaluation.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/run.h>
#include <lockstep/train/sharded/checkpoint.h>
#include <lockstep/version.h>
#include <lockstep/world/cluster_options.h>
#include <lockstep/world/world.h>

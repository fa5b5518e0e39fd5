// All of Lockstep that a program needs: ranks (world), groups and collectives (comm), data parallel training
// (mirrored), tensors that many ranks hold together (global), and the parts of a training run (data, models, train).
// Heavy headers of libtorch are not included here.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/cluster/error_file.h>
#include <lockstep/cluster/launch.h>
#include <lockstep/cluster/spawn.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>
#include <lockstep/comm/init.h>
#include <lockstep/comm/progress.h>
#include <lockstep/comm/work.h>
#include <lockstep/data/check.h>
#include <lockstep/data/dataset.h>
#include <lockstep/data/loader.h>
#include <lockstep/data/pipeline.h>
#include <lockstep/data/sampler.h>
#include <lockstep/data/synthesize.h>
#include <lockstep/data/transform.h>
#include <lockstep/global/distribute_module.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/kernels/channels_last.h>
#include <lockstep/kernels/threads.h>
#include <lockstep/mirrored/data_parallel.h>
#include <lockstep/mirrored/parameter_shards.h>
#include <lockstep/mirrored/sharded_optimizer.h>
#include <lockstep/models/registry.h>
#include <lockstep/plan/auto_parallel.h>
#include <lockstep/train/config.h>
#include <lockstep/train/run.h>
#include <lockstep/world/world.h>

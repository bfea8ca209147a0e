#!/usr/bin/env bash
# A real Slurm on this one machine, in a folder of its own: `slurm_here.sh start FOLDER [NODES]`, `slurm_here.sh stop FOLDER`.
#
# For tests and for trying scripts. Needs root and Debian's packages: apt-get install --no-install-recommends slurm-wlm munge
# Nothing is written outside FOLDER; `stop` ends the daemons by their pid files. What talks to it has SLURM_CONF=FOLDER/slurm.conf.
# NODES (1) slurmd run side by side, each with two CPUs, under the names here1, here2, …: jobs over several nodes can be tried.
set -euo pipefail

usage() { sed -n '2s/^# //p' "$0" >&2; exit 2; }
(($# >= 2)) || usage
mkdir -p -- "$2"
folder=$(cd -- "$2" && pwd -P)   # daemons change their directory: every path is absolute
case $folder in *[[:space:]]*) echo "slurm.conf takes no path with blanks: $folder" >&2; exit 2 ;; esac

ended() { ! kill -0 "$1" 2>/dev/null; }

stop() {
  local file pid
  if [[ -s $folder/slurmctld.pid ]]; then   # jobs outlive the daemons
    export SLURM_CONF=$folder/slurm.conf
    timeout 10 squeue --noheader --format=%A 2>/dev/null | sort -u | timeout 10 xargs -r scancel || true
    for _ in $(seq 100); do
      [[ -n $(timeout 10 squeue --noheader --states=running,completing 2>/dev/null) ]] || break
      sleep 0.2
    done
  fi
  # Those that would start something first; munged last, which all others speak through.
  for file in "$folder"/slurmctld.pid "$folder"/slurmd.*.pid "$folder"/munged.pid; do
    [[ -s $file ]] || continue
    pid=$(<"$file")
    kill "$pid" 2>/dev/null || true
    for _ in $(seq 100); do ended "$pid" && break; sleep 0.1; done
    ended "$pid" || kill -KILL "$pid" 2>/dev/null || true
    rm -f -- "$file"
  done
}

start() {
  local nodes=$1 name=() number memory port
  port=$(free_ports "$nodes")
  for number in $(seq "$nodes"); do name+=("here$number"); done
  mkdir -p -- "$folder/state"
  (umask 077 && head -c 1024 /dev/urandom >"$folder/munge.key")
  munged --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
    --log-file="$folder/munged.log" --seed-file="$folder/munged.seed"
  memory=$(awk '/MemTotal/ { print int($2 / 1024 * 0.9) }' /proc/meminfo)
  {
    cat <<END
ClusterName=here
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=$port
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket,cred_expire=6
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=2,batch_sched_delay=0
MpiDefault=none
ReturnToService=2
KillWait=10
MinJobAge=3600
MailProg=/bin/true
JobCompType=jobcomp/filetxt
JobCompLoc=$folder/jobs.log
END
    for number in $(seq "$nodes"); do
      echo "NodeName=here$number NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$((port + number)) CPUs=2 RealMemory=$memory"
    done
    echo "PartitionName=here Nodes=$(IFS=,; echo "${name[*]}") Default=YES MaxTime=INFINITE State=UP"
  } >"$folder/slurm.conf"
  export SLURM_CONF=$folder/slurm.conf
  slurmctld -f "$SLURM_CONF"
  for number in $(seq "$nodes"); do
    mkdir -p -- "$folder/spool.here$number"
    slurmd -N "here$number" -f "$SLURM_CONF"
  done
  for _ in $(seq 100); do
    if [[ $(sinfo --noheader --format=%T 2>/dev/null) == idle ]]; then
      echo "export SLURM_CONF=$SLURM_CONF"
      return
    fi
    sleep 0.2
  done
  echo "no node came up; the logs are in $folder" >&2
  tail -n 5 "$folder"/*.log >&2
  stop
  exit 1
}

# The first of so many ports that nobody listens at.
free_ports() {
  local base number
  while :; do
    base=$((10000 + RANDOM % 20000))
    for number in $(seq 0 "$1"); do
      (exec 3<>"/dev/tcp/127.0.0.1/$((base + number))") 2>/dev/null && continue 2
    done
    echo "$base"
    return
  done
}

case $1 in
  start) trap stop ERR; start "${3:-1}" ;;
  stop) stop ;;
  *) usage ;;
esac

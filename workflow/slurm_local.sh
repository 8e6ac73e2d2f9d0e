#!/bin/bash
# A Slurm on this one machine, to try the workflow without a cluster: Debian's packages, root, no cgroups needed.
#   workflow/slurm_local.sh install | start | stop
# /etc/slurm/slurm.conf is written by `start`, since a job step looks nowhere else, and removed by `stop`.
set -euo pipefail

conf=/etc/slurm/slurm.conf
state=${SLURM_LOCAL_STATE:-/var/tmp/slurm_local}
mark="# written by workflow/slurm_local.sh"

install_packages() {
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm munge
}

write_conf() {
    if [ -e "$conf" ] && ! grep -qF "$mark" "$conf"; then
        echo "$conf is there and was not written by this script: a Slurm of somebody else, which is left alone" >&2
        exit 1
    fi
    local host cpus memory
    host=$(hostname -s)
    cpus=$(nproc)
    memory=$(($(grep MemTotal /proc/meminfo | tr -dc 0-9) / 1024 * 9 / 10))
    mkdir -p "$state/state" "$state/spool" "$(dirname "$conf")"
    cat > "$conf" <<EOF
$mark
ClusterName=local
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation=$state/state
SlurmdSpoolDir=$state/spool
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/slurmd.pid
SlurmctldLogFile=$state/slurmctld.log
SlurmdLogFile=$state/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$cpus RealMemory=$memory State=UNKNOWN
PartitionName=main Nodes=$host Default=YES MaxTime=INFINITE State=UP
EOF
}

start() {
    command -v slurmctld > /dev/null || { echo "there is no slurmctld here: workflow/slurm_local.sh install" >&2; exit 1; }
    write_conf
    install -d -o munge -g munge /run/munge
    [ -S /run/munge/munge.socket.2 ] || runuser -u munge -- munged
    slurmctld
    slurmd
    for _ in $(seq 60); do
        if sinfo --noheader --format %T 2> /dev/null | grep -q idle; then
            sinfo
            return
        fi
        sleep 1
    done
    echo "no node has come up in a minute: see $state/slurmctld.log and $state/slurmd.log" >&2
    exit 1
}

stop() {
    grep -qsF "$mark" "$conf" || { echo "no Slurm was started by this script" >&2; exit 1; }
    scancel --state=RUNNING,PENDING --user=root 2> /dev/null || true
    scontrol shutdown || true
    for name in slurmctld slurmd; do
        for _ in $(seq 20); do
            [ -e "$state/$name.pid" ] && kill -0 "$(cat "$state/$name.pid")" 2> /dev/null || break
            sleep .5
        done
    done
    [ ! -e /run/munge/munged.pid ] || kill "$(cat /run/munge/munged.pid)"
    rm -rf "$conf" "$state"
}

case "${1:-}" in
    install) install_packages ;;
    start) start ;;
    stop) stop ;;
    *) sed -n '2,4p' "$0" | cut -c3- >&2; exit 2 ;;
esac

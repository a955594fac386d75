# Owns one directory and at most one server in it, and outlives the test process by the moment it takes to remove both:
# the pipe on stdin ends when that process does, in whatever way.
#
#   sh supervisor.sh TEMPLATE       prints the directory made from the mktemp template, then reads commands, one a line:
#   run COMMAND                     runs it to its end and prints its exit status
#   start COMMAND                   starts it as the server and prints its process id
#   wait                            waits for the server to end and prints its exit status
#   finally COMMAND                 to be run at the end if the server still runs
#   after COMMAND                   to be run at the end in any case

dir=$(mktemp -d "$1") || exit 1
server= finally=: after=:
echo "$dir"
while read -r word command; do
    case $word in
    run)
        (eval "$command") </dev/null >>"$dir/log" 2>&1
        echo $?
        ;;
    start)
        (eval "exec $command") </dev/null >>"$dir/log" 2>&1 &
        server=$!
        echo $server
        ;;
    wait)
        wait $server
        echo $?
        server=
        ;;
    finally) finally=$command ;;
    after) after=$command ;;
    esac
done 2>/dev/null

{
    if [ -n "$server" ]; then
        kill -CONT $server
        (eval "$finally") </dev/null
        kill -KILL $server
        wait $server
    fi
    (eval "$after") </dev/null
    rm -rf "$dir" || { sleep 1; rm -rf "$dir"; }
} >/dev/null 2>&1
